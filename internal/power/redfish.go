package power

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// system holds the fields of a ComputerSystem that are used (DMTF DSP0266 and DSP2046).
type system struct {
	PowerState string
	Boot       struct {
		Targets []string `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	}
	Actions struct {
		Reset struct {
			Target string   `json:"target"`
			Types  []string `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	}
	Tag    string `json:"@odata.etag"`
	header string // ETag header of the response
}

// tags returns values of If-Match for a change, the most likely one first. Some controllers have the tag only in the
// body (AMI), some accept only its strong form, or only "*".
func (s system) tags() []string {
	var out []string
	for _, tag := range []string{s.header, s.Tag, strings.TrimPrefix(s.header, "W/"), strings.TrimPrefix(s.Tag, "W/")} {
		if tag != "" && !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}

// resets are the ResetTypes for each step, the best first. Vendors support different ones.
var resets = map[step][]string{
	powerOn:  {"On", "ForceOn"},
	shutDown: {"GracefulShutdown", "PushPowerButton"},
	cut:      {"ForceOff"},
	restart:  {"ForceRestart", "PowerCycle", "GracefulRestart"},
}

func redfish(ctx context.Context, r Request) (State, error) {
	c := newRedfishClient(r)
	defer c.close()
	path, err := c.find(ctx, r.To.System)
	if err != nil {
		return Unknown, err
	}
	sys, err := c.system(ctx, path)
	if err != nil {
		return Unknown, err
	}
	state := sys.state()
	do := decide(r.Action, state, r.Force)
	if do == nothing {
		return state, nil
	}
	if r.Network && (do == powerOn || do == restart) {
		if err := c.network(ctx, path, sys); err != nil {
			return state, err
		}
	}
	kind, err := sys.reset(do)
	if err != nil {
		return state, err
	}
	target, err := local(sys.Actions.Reset.Target)
	if err != nil {
		return state, err
	}
	_, err = c.call(ctx, http.MethodPost, target, "", map[string]string{"ResetType": kind}, nil)
	return state, err
}

// state returns IsOn, IsOff or Unknown. A transition counts as the state before it: PoweringOn is off.
func (s system) state() State {
	switch s.PowerState {
	case "On", "PoweringOff":
		return IsOn
	case "Off", "PoweringOn":
		return IsOff
	}
	return Unknown
}

func (s system) reset(do step) (string, error) {
	if len(s.Actions.Reset.Types) == 0 { // a service need not list them
		return resets[do][0], nil
	}
	for _, kind := range resets[do] {
		if slices.Contains(s.Actions.Reset.Types, kind) {
			return kind, nil
		}
	}
	return "", fmt.Errorf("its controller has no way to %s, only %s", do, strings.Join(s.Actions.Reset.Types, ", "))
}

// find returns the path of the system that a controller manages.
func (c *redfishClient) find(ctx context.Context, id string) (string, error) {
	const systems = "/redfish/v1/Systems"
	if id != "" {
		return systems + "/" + url.PathEscape(id), nil
	}
	var list struct {
		Members []struct {
			ID string `json:"@odata.id"`
		}
	}
	if _, err := c.call(ctx, http.MethodGet, systems, "", nil, &list); err != nil {
		return "", err
	}
	if len(list.Members) != 1 {
		return "", fmt.Errorf("it has %d systems: choose one with ?system=ID in the address", len(list.Members))
	}
	return local(list.Members[0].ID)
}

// local returns an error unless a path that a controller names is on that controller and below /redfish/.
func local(path string) (string, error) {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || u.User != nil || !strings.HasPrefix(path, "/redfish/") ||
		strings.Contains(path, "..") {
		return "", fmt.Errorf("the controller names %.100q, which is no path of Redfish", path)
	}
	return path, nil
}

func (c *redfishClient) system(ctx context.Context, path string) (system, error) {
	var s system
	h, err := c.call(ctx, http.MethodGet, path, "", nil, &s)
	s.header = h.Get("ETag")
	return s, err
}

// network makes the next start boot from the network by UEFI, once.
func (c *redfishClient) network(ctx context.Context, path string, sys system) error {
	target := "Pxe"
	if t := sys.Boot.Targets; len(t) > 0 && !slices.Contains(t, target) {
		if target = "UefiHttp"; !slices.Contains(t, target) {
			return fmt.Errorf("its controller cannot boot from the network once, only from %s", strings.Join(t, ", "))
		}
	}
	boot := map[string]string{
		"BootSourceOverrideEnabled": "Once",
		"BootSourceOverrideTarget":  target,
		"BootSourceOverrideMode":    "UEFI",
	}
	var bad []string
	patch := func() error { return c.patch(ctx, path, sys, &bad, map[string]any{"Boot": boot}) }
	err := patch()
	var refused *redfishError
	if errors.As(err, &refused) && refused.status != http.StatusUnauthorized && !refused.tag() {
		// Some controllers have no mode, or do not let it be changed together with the target.
		delete(boot, "BootSourceOverrideMode")
		if again := patch(); again == nil {
			return nil
		}
	}
	return err
}

// patch changes a system. If a tag is refused, it reads the system once more and tries each tag. It adds refused tags
// to bad, and sends none of them again.
func (c *redfishClient) patch(ctx context.Context, path string, sys system, bad *[]string, change any) error {
	err := error(&redfishError{what: "change " + path, status: http.StatusPreconditionFailed})
	try := func(tags []string) (done bool) {
		for _, t := range tags {
			if slices.Contains(*bad, t) {
				continue
			}
			_, err = c.call(ctx, http.MethodPatch, path, t, change, nil)
			var refused *redfishError
			if !errors.As(err, &refused) || !refused.tag() {
				return true
			}
			*bad = append(*bad, t)
		}
		return false
	}
	if try(append(sys.tags(), "")[:1]) {
		return err
	}
	fresh, again := c.system(ctx, path)
	if again != nil {
		return errors.Join(err, again)
	}
	try(append(fresh.tags(), "*"))
	return err
}

// redfishError is an error response of a controller.
type redfishError struct {
	what   string
	status int
	says   string
}

func (e *redfishError) Error() string {
	s := fmt.Sprintf("%s: %d %s", e.what, e.status, http.StatusText(e.status))
	switch {
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		s += ": look at user and password (pando node password)"
	case e.says != "":
		s += ": " + e.says
	}
	return s
}

// tag reports whether the controller refused the value of If-Match, or its absence.
func (e *redfishError) tag() bool {
	return e.status == http.StatusPreconditionFailed || e.status == http.StatusPreconditionRequired
}

// says returns the messages in the body of an error response.
func says(body []byte) string {
	var e struct {
		Error struct {
			Message string
			More    []struct{ Message string } `json:"@Message.ExtendedInfo"`
		}
	}
	if json.Unmarshal(bytes.ToValidUTF8(body, nil), &e) != nil {
		return ""
	}
	text := e.Error.Message
	if len(e.Error.More) > 0 && e.Error.More[0].Message != "" {
		text = e.Error.More[0].Message
	}
	return strings.Join(strings.Fields(text[:min(len(text), 200)]), " ")
}
