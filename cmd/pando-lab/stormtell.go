package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// telling is a node that the server knows: it asks for its boot as iPXE does, loads kernel and initramfs, says hello, and tells how
// far it is as the agent does. So its storm is on the dashboard.
type telling struct {
	n       *node
	mac     fleet.MAC
	data    *http.Client
	control *http.Client
	config  api.BootConfig
	session string
	version fleet.Digest
	init    time.Time // kernel and initramfs were loaded: zero of its clock
}

// tellingName is the node of a number.
func tellingName(i int) string { return fmt.Sprintf("pc%03d", i+1) }

// acquaint makes the storm's nodes known to the server, half of them in a room of their own, and has them boot its version.
func (s *storm) acquaint(ctx context.Context, m *material, nodes []*node) error {
	name := s.image
	if name == string(m.version) {
		name = "storm"
	}
	if _, err := s.site.API.AddVersion(ctx, name, api.VersionAdd{Version: m.version}); err != nil {
		return err
	}
	ref := fleet.Ref(name + "@" + string(m.version))
	if _, err := s.site.API.SetGroup(ctx, fleet.DefaultGroup, api.GroupSet{Image: &ref}); err != nil {
		return err
	}
	for i, n := range nodes {
		mac, err := n.macOf()
		if err != nil {
			return err
		}
		name := tellingName(i)
		if _, err := s.site.API.Node(ctx, name); err == nil { // of the run before: its links were others
			if _, err := s.site.API.DeleteNodes(ctx, name, false); err != nil {
				return err
			}
		}
		room := []string{"b12", "b14"}[2*i/len(nodes)]
		if _, err := s.site.API.CreateNode(ctx, api.NodeCreate{Name: name, MACs: []fleet.MAC{mac}, Labels: map[string]string{"room": room}}); err != nil {
			return err
		}
		n.tells = true
	}
	return nil
}

// macOf is the address of the node's end of its link.
func (n *node) macOf() (mac fleet.MAC, err error) {
	err = n.net.Do(func() error {
		link, err := net.InterfaceByName(testkit.LinkName)
		if err == nil {
			mac, err = fleet.ParseMAC(link.HardwareAddr.String())
		}
		return err
	})
	return mac, err
}

func (t *telling) hello(ctx context.Context) error {
	begun := time.Since(t.init)
	var answer api.HelloResponse
	err := t.post(ctx, "/v1/node/hello", "", api.HelloRequest{Boot: t.config.Boot, Token: t.config.Token, MAC: t.mac, Addr: t.n.net.Addr.Addr().String(),
		Release: t.config.Release, Hardware: fleet.Hardware{Vendor: "Pando", Product: "storm lab"}}, &answer)
	if err != nil {
		return err
	}
	var a fleet.Assignment
	if err := json.Unmarshal(answer.Assignment, &a); err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	if a.Version != t.n.m.version {
		return fmt.Errorf("the server has this node boot %s, the storm is of %s", a.Version.Short(), t.n.m.version.Short())
	}
	t.session, t.version = answer.Session, a.Version
	return t.report(ctx, nil, t.end(trace.Init, 0), t.begin(trace.Hello, begun), t.end(trace.Hello, time.Since(t.init)), t.begin(trace.Device, time.Since(t.init)))
}

func (t *telling) begin(s trace.Stage, at time.Duration) trace.Event {
	return trace.Event{Stage: s, Kind: trace.Begin, Offset: at}
}

func (t *telling) end(s trace.Stage, at time.Duration) trace.Event {
	return trace.Event{Stage: s, Kind: trace.End, Offset: at}
}

// attached tells that the root can be read.
func (t *telling) attached(ctx context.Context) error {
	return t.report(ctx, nil, t.end(trace.Device, time.Since(t.init)))
}

// booted tells that the node is up, and who sent it its root.
func (t *telling) booted(ctx context.Context, at time.Time, p *pandoRoot) error {
	st, err := p.Client.Status(ctx, 0)
	if err != nil {
		return err
	}
	e := t.end(trace.Booted, at.Sub(t.init))
	e.Bytes = st.Bytes
	return t.report(ctx, &api.NodeStatus{Version: t.version, Release: t.config.Release, Bytes: st.Bytes, Fed: st.Fed, Reads: st.Reads,
		Rejected: st.Rejected, Stalled: st.Stalled}, e)
}

func (t *telling) report(ctx context.Context, st *api.NodeStatus, events ...trace.Event) error {
	return t.post(ctx, "/v1/node/events", "Bearer "+t.session, api.ReportRequest{Boot: t.config.Boot, Uptime: time.Since(t.init), Events: events, Status: st}, nil)
}

// post sends JSON over the control channel.
func (t *telling) post(ctx context.Context, path, authorization string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if len(t.config.Control) == 0 {
		return fmt.Errorf("boot.json names no control channel")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(t.config.Control[0], "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := t.control.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("POST %s: %s: %s", path, resp.Status, data)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}
