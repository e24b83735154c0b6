package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/image"
	"pando/internal/journal"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Limits of an answer and of its parameters.
const (
	defaultLines = 200
	maxLines     = 10_000
	maxPattern   = 1000 // bytes of a unit or a pattern
)

// Routes returns the routes of the journals of nodes.
func (s *Journals) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/nodes/{name}/logs", httpapi.JSON(s.nodeLogs)),
		httpapi.NewRoute("GET", "/v1/nodes/{name}/logs/stream", s.followLogs),
	}
}

// nodeLogs answers GET /v1/nodes/{name}/logs.
func (s *Journals) nodeLogs(r *http.Request) (any, error) {
	q, err := journalQuery(r)
	if err != nil {
		return nil, err
	}
	out, err := s.journalOf(r.Context(), r.PathValue("name"), r.URL.Query().Get("boot"))
	if err != nil || out.Missing != "" {
		return out, err
	}
	lines, err := s.dir.Lines(r.Context(), out.Node, string(out.Boot), q)
	if err != nil {
		return nil, refusedQuery(err)
	}
	for _, l := range lines {
		out.Lines = append(out.Lines, api.JournalLine(l))
	}
	out.Units, err = s.dir.Units(r.Context(), out.Node, string(out.Boot))
	return out, err
}

// followLogs answers GET /v1/nodes/{name}/logs/stream: it sends lines as they arrive, as server-sent events.
func (s *Journals) followLogs(w http.ResponseWriter, r *http.Request) error {
	q, err := journalQuery(r)
	if err != nil {
		return err
	}
	of, err := s.journalOf(r.Context(), r.PathValue("name"), r.URL.Query().Get("boot"))
	if err != nil {
		return err
	}
	if !s.Kept() {
		return api.NewError(api.NotFound, of.Missing, "")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return nil // the client is gone
	}
	defer s.Watch(of.Node)()
	err = s.dir.Follow(r.Context(), of.Node, string(of.Boot), q, func(l journal.Line) error {
		b, err := json.Marshal(api.JournalLine(l))
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", b)
		}
		return errors.Join(err, out.Flush())
	})
	if err != nil && r.Context().Err() == nil {
		s.log.Warn("journal cannot be followed any longer", "node", of.Node, "boot", of.Boot, "err", err)
	}
	return nil // the answer has begun: the client sees an error only as its end
}

// journalQuery parses the parameters that select lines of a journal.
func journalQuery(r *http.Request) (journal.Query, error) {
	v := r.URL.Query()
	q := journal.Query{Unit: v.Get("unit"), Grep: v.Get("grep"), Priority: v.Get("priority")}
	for _, s := range []string{q.Unit, q.Grep, q.Priority} {
		if len(s) > maxPattern || strings.ContainsAny(s, "\x00\n") {
			return q, httpapi.BadRequest(
				"unit, pattern or priority has more than "+strconv.Itoa(maxPattern)+" bytes, or a line break",
				"",
			)
		}
	}
	last, err := httpapi.QueryInt(r, "last", defaultLines)
	if err != nil {
		return q, err
	}
	q.Last = int(min(max(last, 1), maxLines))
	for name, t := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *t, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return q, httpapi.BadRequest(
					"parameter "+name+": "+strconv.Quote(text)+" is no time",
					"write it like 2026-11-22T08:00:00Z",
				)
			}
		}
	}
	return q, nil
}

// refusedQuery converts an error of journalctl about a query to an API error.
func refusedQuery(err error) error {
	var wrong *journal.QueryError
	if errors.Is(err, journal.ErrNone) { // the journal was deleted meanwhile
		return api.NewError(api.NotFound, err.Error(), "")
	}
	if errors.As(err, &wrong) {
		return httpapi.BadRequest(
			wrong.Error(),
			"the pattern is a regular expression, a priority a word such as err, a unit a name",
		)
	}
	return err
}

// journalOf finds the journal of a boot of a node. which is "" for the latest boot, a boot ID, or 0, -1, -2 and so on,
// counted back from the latest.
func (s *Journals) journalOf(ctx context.Context, name, which string) (api.Journal, error) {
	out := api.Journal{Lines: []api.JournalLine{}}
	var boots []registry.Boot
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, name)
		if err != nil {
			return err
		}
		out.Node = n.Name
		boots, err = tx.Boots(registry.BootFilter{Node: n.Name})
		return err
	})
	if err != nil {
		return out, err
	}
	if s.Kept() {
		for _, b := range s.dir.Boots(out.Node) {
			out.Boots = append(out.Boots, api.JournalBoot{Boot: fleet.BootID(b.Boot), Bytes: b.Bytes, Newest: b.Newest})
		}
	}
	if out.Boot, err = pickBoot(out, boots, which); err != nil {
		return out, err
	}
	if !slices.ContainsFunc(out.Boots, func(b api.JournalBoot) bool { return b.Boot == out.Boot }) {
		out.Missing = s.whyNoJournal(ctx, out, boots)
	}
	return out, nil
}

// pickBoot finds a boot among the recorded boots, newest first, and among those with a journal.
func pickBoot(j api.Journal, boots []registry.Boot, which string) (fleet.BootID, error) {
	back, err := strconv.Atoi(cmp.Or(which, "0"))
	if err == nil && len(which) < 16 && back <= 0 {
		if -back < len(boots) {
			return boots[-back].ID, nil
		}
		return "", api.NewError(
			api.NotFound,
			fmt.Sprintf("node %s has %d boots on record", j.Node, len(boots)),
			"`pando boot list "+j.Node+"` lists them",
		)
	}
	known := slices.ContainsFunc(boots, func(b registry.Boot) bool { return string(b.ID) == which }) ||
		slices.ContainsFunc(j.Boots, func(b api.JournalBoot) bool { return string(b.Boot) == which })
	if !known {
		return "", api.NewError(
			api.NotFound,
			"node "+j.Node+" has no boot "+strconv.Quote(which),
			"`pando boot list "+j.Node+"` lists them; -1 is the one before the latest",
		)
	}
	return fleet.BootID(which), nil
}

// whyNoJournal says why there is no journal of a boot, and what to do.
func (s *Journals) whyNoJournal(ctx context.Context, j api.Journal, boots []registry.Boot) string {
	if !s.Kept() {
		return "this server keeps no journals: install systemd-journal-remote on it, or start it with --logs on, " +
			"and reboot the nodes"
	}
	i := slices.IndexFunc(boots, func(b registry.Boot) bool { return b.ID == j.Boot })
	if i < 0 {
		return "nothing is kept of this boot any more"
	}
	if kept, err := s.store.GetVersion(boots[i].Version); err == nil {
		if p, err := image.DecodeProvenance(kept.Provenance); err == nil && p.NoUploader() {
			return fmt.Sprintf(
				"its image %s has no program that sends the journal: add the package %s to its recipe",
				boots[i].Image,
				image.UploaderPackage,
			)
		}
	}
	progress, err := s.registry.Progress(ctx, j.Boot)
	if p := progress[j.Boot]; err == nil && trace.Rank(p.Stage) < trace.Rank(trace.SwitchRoot) {
		return "the boot has not come to the image's own start, which is where a journal begins"
	}
	return "nothing has come from this boot: it began before this server kept journals, its journal was deleted " +
		"for newer ones, or its image has no " +
		"/lib/systemd/systemd-journal-upload (Debian, Fedora: package " + image.UploaderPackage + "); `systemctl " +
		"status pando-journal` on the node says more"
}
