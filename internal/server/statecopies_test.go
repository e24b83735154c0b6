package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/server/state"
	"pando/internal/trace"
)

// booted is a node in a boot, with its session and the calls of its state script.
type booted struct {
	*node
	boot           fleet.BootID
	session, token string
	calls          string
}

func (s *stateful) booted(n byte) *booted {
	s.t.Helper()
	x := s.node(n)
	cfg := x.load()
	resp := x.register(cfg)
	script := content(assigned(s.t, resp).Files, "/run/pando/state.sh")
	_, calls, _ := strings.Cut(script, "\nsettle\n")
	return &booted{x, cfg.Boot, resp.Session, cfg.Token, calls}
}

// says reports something about a node's state.
func (b *booted) says(text string) {
	b.t.Helper()
	r := api.ReportRequest{
		Boot:   b.boot,
		Uptime: time.Second,
		Status: &api.NodeStatus{State: text},
		Events: []trace.Event{{Stage: trace.Booted, Kind: trace.End}},
	}
	if e := b.post("/v1/node/events", "Bearer "+b.session, r, nil); e != nil {
		b.t.Fatal(e)
	}
}

// sends sends an archive like the node's program.
func (b *booted) sends(order, right string, archive io.Reader) *api.Error {
	b.t.Helper()
	req, err := http.NewRequestWithContext(
		b.t.Context(),
		"POST",
		fmt.Sprintf("https://127.0.0.1:%d/v1/node/state/send?boot=%s&order=%s", b.ports.Control, b.boot, order),
		archive,
	)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", right)
	res, err := b.http.Do(req)
	if err != nil {
		return api.NewError(api.Internal, err.Error(), "")
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	var e api.ErrorBody
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Error == nil {
		b.t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	return e.Error
}

// fetches requests what another node sent.
func (b *booted) fetches(order, right string) (int, string) {
	b.t.Helper()
	status, body := b.postRaw("/v1/node/state/fetch", right, api.StateFetch{Boot: b.boot, Order: order})
	return status, string(body)
}

// kept returns the files of the spool.
func (s *stateful) kept() (out []string) {
	s.t.Helper()
	found, err := os.ReadDir(filepath.Join(s.cfg.Dir, state.SpoolDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	for _, f := range found {
		info, err := f.Info()
		if err != nil || info.Mode() != 0o600 {
			s.t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
		out = append(out, f.Name())
	}
	return out
}

const onDisk = "on\tdisk\tdisk\n"

// startCopied starts a site whose nodes node001 and node002 keep state on disks, and orders a copy from one to the
// other.
func startCopied(t *testing.T) (s *stateful, a, b *booted, order string) {
	t.Helper()
	s = startStateful(t, "disk")
	a, b = s.booted(1), s.booted(2)
	a.says(onDisk)
	b.says(onDisk)
	return s, a, b, s.copies()
}

func (s *stateful) copies() (order string) {
	s.t.Helper()
	got, err := s.c.CopyState(s.t.Context(), "node002", api.StateChange{From: "node001"})
	if err != nil || len(got.Orders) != 1 || !got.Orders[0].Waits() || got.Orders[0].Place != got.Place {
		s.t.Fatalf("%+v, %v", got, err)
	}
	return got.Orders[0].ID
}

// State on a node's disk is copied to another node through the server: the next boot of the one sends it, and the first
// boot of the other after that fetches it. No other node can.
func TestStateIsCopiedThroughTheServer(t *testing.T) {
	s, a, _, order := startCopied(t)
	unknown := s.booted(3)
	unknown.says(onDisk)
	b := s.booted(2)
	if strings.Contains(b.calls, order) {
		t.Errorf("nothing was sent, and the node does\n%s", b.calls)
	}
	s.told1("node002", "the copy of node001 waits: node001 has not sent its state")
	old := a
	if a = s.booted(1); !strings.HasPrefix(a.calls, "send '"+order+"'\ntidy\n") {
		t.Errorf("the node that sends does\n%s", a.calls)
	}
	archive := strings.Repeat("state of node001 ", 4_000_000) // more than one check of the free space
	for who, x := range map[string]struct {
		*booted
		right string
	}{"another node": {unknown, "Bearer " + unknown.session}, "the node that gets it": {b, "Bearer " + b.session},
		"an older boot": {old, "Bearer " + old.session},
		"a token":       {a, "Boot " + a.token}, "nobody": {a, ""},
		"another's session": {a, "Bearer " + unknown.session}} {
		if e := x.sends(order, x.right, strings.NewReader("forged")); e == nil ||
			e.Code != api.Unauthorized && e.Code != api.NotFound {
			t.Errorf("%s sends: %v", who, e)
		}
	}
	if status, _ := b.fetches(order, "Bearer "+b.session); status != 404 || s.kept() != nil {
		t.Errorf("before it is sent: status %d, %v", status, s.kept())
	}
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader(archive)); e != nil {
		t.Fatal(e)
	}
	if got := s.kept(); !slices.Equal(got, []string{order}) {
		t.Errorf("the server keeps %v", got)
	}
	s.told1("node001", "the node's state was sent to the server, for node002")
	sum := sha256.Sum256([]byte(archive))
	digest := hex.EncodeToString(sum[:])
	if x := s.of("node002").Orders; len(x) != 1 || x[0].Bytes != int64(len(archive)) || x[0].Digest != digest ||
		s.of("node001").Orders != nil {
		t.Errorf("sent: %+v, %+v", x, s.of("node001").Orders)
	}
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("again")); e == nil || e.Code != api.NotFound {
		t.Errorf("sent twice: %v", e)
	}
	if a = s.booted(1); strings.Contains(a.calls, order) {
		t.Errorf("sent, it is to be sent again:\n%s", a.calls)
	}

	before := b
	s.restart()
	if b = s.booted(2); !strings.HasPrefix(b.calls, fmt.Sprintf("fetch '%s' '%s' 'node001'\ntidy\n", order, digest)) {
		t.Errorf("the node that gets it does\n%s", b.calls)
	}
	unknown, a = s.booted(3), s.booted(1)
	for who, x := range map[string]struct {
		*booted
		right string
	}{"another node": {unknown, "Bearer " + unknown.session}, "the node that sent it": {a, "Bearer " + a.session},
		"an older boot": {&booted{b.node, before.boot, "", "", ""}, "Bearer " + before.session},
		"a token":       {b, "Boot " + b.token}, "nobody": {b, ""}, "another's session": {b, "Bearer " + a.session}} {
		if status, body := x.fetches(order, x.right); status != 401 && status != 404 ||
			strings.Contains(body, "state of node001 state") {
			t.Errorf("%s fetches: status %d: %.200s", who, status, body)
		}
	}
	if status, body := b.fetches(order, "Bearer "+b.session); status != 200 || body != archive {
		t.Errorf("fetched: status %d, %d bytes", status, len(body))
	}
	b.says(onDisk + "done\t" + order + "\nkept\t/srv\t1795600000\t-\n")
	if x := s.of("node002"); x.Orders != nil || x.Last == nil || x.Last.Error != "" || s.kept() != nil {
		t.Errorf("done: %+v, %v", x, s.kept())
	}
	s.told1("node002", "the node's state was made a copy of that of node001")
	if status, _ := b.fetches(order, "Bearer "+b.session); status != 404 {
		t.Errorf("done, it is given again: status %d", status)
	}
}

// broken is a body that ends in the middle, or pauses until it is told to go on.
type broken struct {
	io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}

// State that does not arrive completely is dropped, and sent again. If the disk is too full, it is refused with a hint,
// and both nodes' timelines say why there is no copy.
func TestStateIsSentInPart(t *testing.T) {
	s, a, _, order := startCopied(t)
	right := "Bearer " + a.session
	if e := a.sends(order, right, broken{strings.NewReader("half"), errors.New("cut")}); e == nil {
		t.Error("half of it was taken")
	}
	for range 100 { // the server notices it a little later
		if s.kept() == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := s.kept(); got != nil || s.of("node001").Orders == nil {
		t.Errorf("after half of it: %v, %+v", got, s.of("node001"))
	}

	hold := make(chan struct{})
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(bytes.Repeat([]byte("x"), state.RoomEvery+1))
		<-hold
		w.Close()
	}()
	done := make(chan *api.Error)
	go func() { done <- a.sends(order, right, r) }()
	part := filepath.Join(s.cfg.Dir, state.SpoolDir, order+".new")
	for info, err := os.Stat(part); err != nil || info.Size() < state.RoomEvery; info, err = os.Stat(part) {
		time.Sleep(10 * time.Millisecond)
	}
	if e := a.sends(order, right, strings.NewReader("beside it")); e == nil || e.Code != api.TooMany {
		t.Errorf("two at once: %v", e)
	}
	if err := s.state.SettleCopies(t.Context()); err != nil {
		t.Error(err)
	}
	close(hold)
	if e := <-done; e != nil || !slices.Equal(s.kept(), []string{order}) {
		t.Errorf("%v, %v", e, s.kept())
	}

	order = s.copies()
	if got := s.kept(); got != nil {
		t.Errorf("another copy was ordered, and this is left: %v", got)
	}
	s.state.Spool.Free = math.MaxInt64
	e := a.sends(order, right, strings.NewReader("whole"))
	if e == nil || e.Code != api.Conflict || !strings.Contains(e.Message, "no room") ||
		!strings.Contains(e.Hint, "make room") ||
		s.kept() != nil {
		t.Errorf("a full disk: %v, %v", e, s.kept())
	}
	a.says(onDisk + "failed\t" + order + "\tno room\n")
	if x := s.of("node002"); x.Orders != nil || x.Last == nil || x.Last.Error != "node001 could not send it: no room" ||
		s.of("node001").Last.Error != "no room" {
		t.Errorf("not sent: %+v, %+v", x, s.of("node001"))
	}
	s.told1("node001", "not done, the sending to node002 of node state: no room")
	s.told1("node002", "not done, the copy of node001 of node state: node001 could not send it: no room")
}

// A copy ends on both sides if it is withdrawn on either, if it is replaced, if the sender is deleted, and if nobody
// fetches it. The sent files are removed.
func TestCopyThroughTheServerEnds(t *testing.T) {
	s, a, _, order := startCopied(t)
	ctx := t.Context()
	send := func() {
		t.Helper()
		if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil || len(s.kept()) != 1 {
			t.Fatalf("%v, %v", e, s.kept())
		}
	}
	ended := func(what, why string) {
		t.Helper()
		x, y := s.of("node001"), s.of("node002")
		if x.Orders != nil || y.Orders != nil || s.kept() != nil ||
			why != "" && (y.Last == nil || !strings.Contains(y.Last.Error, why)) {
			t.Errorf("%s: %+v, %+v %+v, %v", what, x, y, y.Last, s.kept())
		}
		if why != "" {
			s.told1("node002", "not done, the copy of node001 of node state: "+why)
		}
	}
	if _, err := s.c.WithdrawState(ctx, "node001"); err != nil {
		t.Fatal(err)
	}
	ended("taken back where it is sent", "node001 does not send its state any more")
	order = s.copies()
	if _, err := s.c.WithdrawState(ctx, "node002"); err != nil {
		t.Fatal(err)
	}
	ended("taken back where it goes", "")
	order = s.copies()
	send()
	if _, err := s.c.WithdrawState(ctx, "node002"); err != nil {
		t.Fatal(err)
	}
	ended("taken back when it was sent", "")

	order = s.copies()
	if got, err := s.c.ResetState(ctx, "node001", api.StateChange{}); err != nil || len(got.Orders) != 2 {
		t.Errorf("reset, it does not send any more: %+v, %v", got, err)
	}
	if a = s.booted(1); !strings.HasPrefix(a.calls, "send '"+order+"'\nreset '") {
		t.Errorf("the node does\n%s", a.calls)
	}
	s.update(func(tx *registry.Tx) error { return tx.ForgetState("node001") })
	if err := s.state.SettleCopies(ctx); err != nil {
		t.Error(err)
	}
	a = s.booted(1)
	a.says(onDisk)
	order = s.copies()
	send()
	s.clock.add(state.SpoolLife + time.Hour)
	if err := s.state.SettleCopies(ctx); err != nil {
		t.Error(err)
	}
	ended("not fetched", "it was not fetched within 14 days")

	a = s.booted(1)
	order = s.copies()
	send()
	if _, err := s.c.DeleteNodes(ctx, "node001", false); err != nil || len(s.kept()) != 1 {
		t.Errorf("the node that sent it was deleted: %v, %v", err, s.kept())
	}
	if b := s.booted(2); !strings.HasPrefix(b.calls, "fetch '"+order) {
		t.Errorf("the node does\n%s", b.calls)
	}
	if _, err := s.c.DeleteNodes(ctx, "node002", false); err != nil || s.kept() != nil {
		t.Errorf("the node that it is for was deleted: %v, %v", err, s.kept())
	}
}

// A sender that is on sends at its next boot, also with --force. Nodes may be renamed until the state has arrived.
func TestCopyWaitsForBothNodes(t *testing.T) {
	s, _, _, _ := startCopied(t)
	got, err := s.c.CopyState(t.Context(), "node002", api.StateChange{From: "node001", Force: true})
	if err != nil || len(got.Orders) != 1 || !got.Orders[0].Waits() {
		t.Fatalf("%+v, %v", got, err)
	}
	order := got.Orders[0].ID
	for was, is := range map[string]string{"node001": "first", "node002": "second"} {
		if _, err := s.c.SetNodes(t.Context(), api.NodeSet{Select: was, Name: &is}); err != nil {
			t.Fatal(err)
		}
	}
	a := s.booted(1)
	if !strings.HasPrefix(a.calls, "send '"+order+"'\n") {
		t.Errorf("the node that sends does\n%s", a.calls)
	}
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil {
		t.Error(e)
	}
	b := s.booted(2)
	if !strings.HasPrefix(b.calls, "fetch '"+order) {
		t.Errorf("the node that gets it does\n%s", b.calls)
	}
	if status, body := b.fetches(order, "Bearer "+b.session); status != 200 || body != "state" {
		t.Errorf("fetched: status %d, %s", status, body)
	}
}

// A boot that may not have secrets neither sends nor fetches state, because kept files may contain keys.
func TestStateIsWithheld(t *testing.T) {
	s, a, b, order := startCopied(t)
	policy := fleet.SecretPolicy("approve-each-boot")
	if _, err := s.c.SetGroup(t.Context(), "default",
		api.GroupSet{Settings: fleet.Settings{Secrets: &policy}}); err != nil {
		t.Fatal(err)
	}
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e == nil || e.Code != api.Forbidden ||
		s.kept() != nil {
		t.Errorf("it sends: %v", e)
	}
	if a = s.booted(1); strings.Contains(a.calls, order) {
		t.Errorf("it is to send:\n%s", a.calls)
	}
	s.told1("node001", "the sending to node002 waits: this boot waits for an operator's approval")
	if _, err := s.c.ApproveNodes(t.Context(), api.NodeSelection{Select: "node001"}); err != nil {
		t.Fatal(err)
	}
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil {
		t.Errorf("approved, it sends: %v", e)
	}
	if status, body := b.fetches(order, "Bearer "+b.session); status != 403 {
		t.Errorf("the other one fetches: status %d: %s", status, body)
	}
	if b = s.booted(2); strings.Contains(b.calls, order) {
		t.Errorf("the other one is to fetch:\n%s", b.calls)
	}
}

// State is copied through the server between any two places if a node cannot reach the other's state. A copy that no
// node can send is refused with a hint.
func TestStateIsCopiedBetweenPlaces(t *testing.T) {
	s := startStateful(t, "disk")
	ctx := t.Context()
	const other = "nfs 10.0.0.2:/other"
	says := map[string]string{
		"disk":                onDisk,
		"nfs 10.0.0.1:/state": onNFS,
		other:                 strings.ReplaceAll(onNFS, "10.0.0.1:/state", "10.0.0.2:/other"),
		"volume 20GB":         "on\tvolume\tvolume 20GB\n",
	}
	on := func(n byte, state string) {
		t.Helper()
		if _, err := s.c.SetNodes(ctx,
			api.NodeSet{Select: s.name(n),
				Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state}}}); err != nil {
			t.Fatal(err)
		}
		s.booted(n).says(says[state])
	}
	s.booted(1)
	s.booted(2)
	for _, c := range []struct{ from, to string }{{"disk", "disk"}, {"disk", "nfs 10.0.0.1:/state"},
		{"nfs 10.0.0.1:/state", "disk"}, {"disk", "volume 20GB"},
		{"volume 20GB", "disk"}, {"nfs 10.0.0.1:/state", other}} {
		on(1, c.from)
		on(2, c.to)
		order := s.copies()
		a := s.booted(1)
		if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil {
			t.Errorf("%s: %v", c.from, e)
		}
		if b := s.booted(2); !strings.Contains(b.calls, "fetch '"+order+"'") {
			t.Errorf("from %s to %s the node does\n%s", c.from, c.to, b.calls)
		}
	}

	on(2, "disk")
	_, err := s.c.CopyState(ctx, "node002", api.StateChange{From: "node009"})
	refusedWith(t, "nobody", err, "node009 keeps nothing where node node002 keeps its state, disk")
	on(1, "disk")
	if _, err := s.c.DeleteNodes(ctx, "node001", false); err != nil {
		t.Fatal(err)
	}
	_, err = s.c.CopyState(ctx, "node002", api.StateChange{From: registry.DeletedName("node001", s.now())})
	refusedWith(t, "a deleted node's disk", err, "keeps nothing where node node002 keeps its state")
	var e *api.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "a deleted node sends nothing") {
		t.Errorf("%+v", e)
	}
}

func (s *stateful) name(n byte) string { return fmt.Sprintf("node%03d", n) }
