package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Limits of one report of a node.
const (
	maxReported = 1000
	maxAttrs    = 16
	maxUptime   = 20 * 365 * 24 * time.Hour
)

// Events answers POST /v1/node/events.
func (s *Service) Events(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.ReportRequest](w, r)
	if err != nil {
		return err
	}
	if len(req.Events) > maxReported || req.Uptime < 0 || req.Uptime > maxUptime {
		return api.NewError(api.BadRequest, "report has too many events, or an impossible uptime", "")
	}
	b, err := s.nodeAuth.Reporter(r, req.Boot)
	if err != nil {
		return err
	}
	events, err := nodeEventsOf(b, req)
	if err != nil {
		return err
	}
	if b, err = s.reached(r.Context(), b, req.Uptime); err != nil {
		return err
	}
	for i := range events {
		events[i].Time = b.Init.Add(events[i].Offset)
	}
	if err := s.boots.Flush(r.Context()); err != nil { // the server's earlier events come first
		return err
	}
	if _, err := s.registry.Append(r.Context(), events...); err != nil {
		return err
	}
	if req.Console != "" {
		if err := unlessFull(s.consoles.AddReported(r.Context(), b.ID, req.Console)); err != nil {
			return err
		}
	}
	if req.Pstore != "" {
		if err := s.consoles.AddPstore(r.Context(), b, req.Pstore); err != nil {
			return err
		}
	}
	if req.Status != nil {
		if err := unlessFull(s.keepStatus(r.Context(), b, *req.Status)); err != nil {
			return err
		}
	}
	s.alive(r, b)
	for _, e := range events {
		if e.Attrs[trace.AttrRootLost] != "" && !b.Session.IsZero() {
			if err := s.boots.Ended(r.Context(), b.MAC, e.Message); err != nil {
				return err
			}
		}
	}
	if !b.Session.IsZero() {
		s.boot.SawEvents(r.Context(), b, events)
	}
	goesDown := func(e trace.Event) bool { return e.Stage == trace.Shutdown }
	if !b.Session.IsZero() && slices.ContainsFunc(events, goesDown) {
		s.lastSeen.Left(b.MAC)
	}
	// A boot's init executes no commands and does not expect a body in the answer.
	answer := api.ReportResponse{
		Command: s.commands.Pending(b.ID),
		Extend:  s.otherExtensions(r.Context(), b, req.Extensions),
	}
	if (answer.Command != nil || answer.Extend) && !b.Session.IsZero() {
		return httpapi.Reply(w, answer)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// unlessFull drops the error of a full disk, for optional parts of a report. Events of the report are kept all the
// same, and the node reports a log from pstore again.
func unlessFull(err error) error {
	if errors.Is(err, registry.ErrFull) {
		return nil
	}
	return err
}

// alive records that a node has reported. An empty report is a heartbeat.
func (s *Service) alive(r *http.Request, b registry.Boot) {
	from := httpapi.RemoteAddr(r)
	if b.Session.IsZero() {
		from = netip.Addr{} // a sender with only the token may have read it on the wire
	}
	s.lastSeen.Note(b.MAC, from, s.now())
	if n, err := s.discovery.Node(r.Context(), b.MAC); err == nil {
		s.discovery.Touch(r.Context(), n, "", "")
	}
}

// reached sets, at a boot's first report, the server's time at which its Init started. The node's clock may be wrong or
// unset, so it reports only how long ago that was. All its events are placed relative to this time.
func (s *Service) reached(ctx context.Context, b registry.Boot, uptime time.Duration) (registry.Boot, error) {
	if !b.Init.IsZero() {
		return b, nil
	}
	c, err := s.boots.Of(ctx, b.MAC)
	if err != nil {
		return b, err
	}
	defer c.Unlock()
	if c.Boot.ID != b.ID { // an older boot whose first report arrives late
		b.Init = s.now().Add(-uptime)
		return b, nil
	}
	err = s.boots.Save(ctx, c, func(b *registry.Boot) {
		if b.Init.IsZero() {
			b.Init = s.now().Add(-uptime)
		}
	})
	return c.Boot, err
}

// markName matches the names that an image may give its own stages.
var markName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// nodeEventsOf checks and completes the events of a report. The server sets the boot, node and MAC: the node cannot
// choose them.
func nodeEventsOf(b registry.Boot, req api.ReportRequest) ([]trace.Event, error) {
	events := make([]trace.Event, 0, len(req.Events))
	for _, e := range req.Events {
		rank := trace.Rank(e.Stage)
		if rank >= 0 && rank < trace.Rank(trace.Init) || rank < 0 && !markName.MatchString(string(e.Stage)) ||
			e.Stage == trace.Rollout ||
			e.Stage == trace.Power {
			return nil, api.NewError(api.BadRequest, fmt.Sprintf("report: %.80q is not a stage of a node", e.Stage), "")
		}
		switch e.Kind {
		case trace.Begin, trace.End, trace.Fail, trace.Info:
		default:
			return nil, api.NewError(api.BadRequest, fmt.Sprintf("report: %.80q is not a kind of event", e.Kind), "")
		}
		e.Seq, e.Boot, e.Node, e.MAC = 0, b.ID, b.Node, b.MAC
		e.Offset = min(max(e.Offset, 0), req.Uptime)
		e.Attempt = min(max(e.Attempt, 0), 1e6)
		e.Message, e.Hint = httpapi.Clip(e.Message, httpapi.MaxMessage), httpapi.Clip(e.Hint, httpapi.MaxMessage)
		e.Bytes, e.Attrs = clipBytes(e.Bytes), clipAttrs(e.Attrs)
		events = append(events, e)
	}
	return events, nil
}

// clipExtensions returns the valid ones of the extensions that a node reports.
func clipExtensions(list []fleet.Extension) (out []fleet.Extension) {
	for _, e := range list[:min(len(list), fleet.MaxExtensions)] {
		if _, err := fleet.ParseDigest(string(e.Version)); err == nil && fleet.ValidName("extension", e.Name) == nil {
			out = append(out, e)
		}
	}
	return out
}

func clipAttrs(attrs map[string]string) map[string]string {
	if len(attrs) > maxAttrs {
		return nil
	}
	out := make(map[string]string, len(attrs))
	for k, v := range attrs {
		out[httpapi.Clip(k, 64)] = httpapi.Clip(v, httpapi.MaxMessage)
	}
	return out
}

// clipBytes returns the valid byte counts of a report, by source. The server, not the node, counts what is sent before
// Init.
func clipBytes(bytes map[string]int64) map[string]int64 {
	if len(bytes) > maxAttrs {
		return nil
	}
	out := make(map[string]int64, len(bytes))
	for source, n := range bytes {
		if n >= 0 && source != trace.SourceK && source != trace.SourceNeighbour {
			out[httpapi.Clip(source, 64)] = n
		}
	}
	return out
}

// keepStatus records a node's last status.
func (s *Service) keepStatus(ctx context.Context, b registry.Boot, st api.NodeStatus) error {
	st.Bytes, st.Release = clipBytes(st.Bytes), httpapi.Clip(st.Release, 64)
	if _, err := fleet.ParseDigest(string(st.Staged)); err != nil {
		st.Staged = ""
	}
	if l, err := fleet.ParseWriteLayer(httpapi.Clip(st.WriteLayer, 64)); err != nil || st.WriteLayer == "" {
		st.WriteLayer = "" // the node knows kinds that this server does not, or reports none
	} else {
		st.WriteLayer = l.String()
	}
	st.Extensions, st.ExtensionError = clipExtensions(
		st.Extensions,
	), httpapi.Clip(
		st.ExtensionError,
		httpapi.MaxMessage,
	)
	if st.Systemd != nil {
		st.Systemd.State = httpapi.Clip(st.Systemd.State, 64)
		st.Systemd.Failed = httpapi.ClipList(st.Systemd.Failed, 64)
		st.Systemd.Units = st.Systemd.Units[:min(len(st.Systemd.Units), 200)]
		for i := range st.Systemd.Units {
			st.Systemd.Units[i].Unit = httpapi.Clip(st.Systemd.Units[i].Unit, 256)
		}
	}
	if err := s.warnOfFullness(ctx, b, st); err != nil {
		return err
	}
	if err := errors.Join(s.keepSenders(ctx, b, st.Fed), s.keepState(ctx, b, st.State)); err != nil {
		return err
	}
	st.Fed, st.State = nil, "" // they are recorded separately and outlive the status
	body, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode status of %s: %w", b.Node, err)
	}
	return s.registry.PutStatus(ctx, b.ID, body, s.now())
}
