package courier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// How long the server may take nothing and give nothing, and how long it may take until what was sent is on its disk.
const (
	courierStalled = 2 * time.Minute
	courierKept    = 15 * time.Minute
)

// Exit statuses of the commands that move state: what the server refuses for good, or tar cannot do, is not tried
// again, and a boot without a server has nobody to try it with.
const (
	courierAgain = 1
	courierNever = 2
	courierAlone = 3
)

// tarOptions have tar keep what a copy of a system's files needs. It is GNU tar: Debian, Fedora and their kin have
// no other.
var tarOptions = []string{"--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"}

// stateCourier moves a node's state to the server, and another node's from there.
type stateCourier struct {
	session rundir.Session
	control *control.Client
}

// Run is what the scripts of node state call: state-send ORDER DIRECTORY live|still, or state-fetch ORDER
// DIGEST DIRECTORY. It returns the exit status; what keeps it from its work is one line.
func Run(dir string, args []string, stderr io.Writer) int {
	var c stateCourier
	err := rundir.ReadJSON(dir, rundir.SessionName, &c.session)
	if err == nil {
		c.control, err = control.New(c.session.Control, c.session.ServerKey, nil)
	}
	if err != nil || c.session.Session == "" {
		fmt.Fprintln(stderr, "this boot has no server:", err)
		return courierAlone
	}
	if args[0] == "state-send" {
		err = c.send(context.Background(), args[1], args[2], args[3] == "live")
	} else {
		err = c.fetch(context.Background(), args[1], args[2], args[3])
	}
	if err == nil {
		return 0
	}
	text, hint := err.Error(), problem.HintOf(err)
	var r *control.Refused
	if errors.As(err, &r) {
		hint = r.Hint()
	}
	if hint != "" {
		text += " (" + hint + ")"
	}
	fmt.Fprintln(stderr, strings.Join(strings.Fields(text), " "))
	if problem.IsFinal(err) || control.ForGood(err) {
		return courierNever
	}
	return courierAgain
}

// send sends all that is kept in a directory. Of a node that runs, files may change and go meanwhile.
func (c stateCourier) send(ctx context.Context, order, from string, live bool) error {
	var errs []error
	for _, u := range c.control.InOrder() {
		err := c.sendTo(ctx, u, order, from, live)
		var r *control.Refused
		if err == nil || problem.IsFinal(err) || errors.As(err, &r) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c stateCourier) sendTo(ctx context.Context, server, order, from string, live bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(courierStalled, func() { cancel(errors.New("the server takes nothing any more")) })
	defer stalled.Stop()
	t := newTar(ctx, append([]string{"--create", "--sparse", "--one-file-system", "--directory=" + from, "--anchored",
		"--exclude=./+pando", "--exclude=./lost+found", "--exclude=./.new+*"}, tarOptions...), ".")
	out, err := t.StdoutPipe()
	if err == nil {
		err = t.Start()
	}
	if err != nil {
		return t.failure(err)
	}
	body := &packer{tar: t, out: out, wait: sync.OnceValue(t.Wait), stalled: stalled, live: live}
	defer body.Close()
	q := url.Values{"boot": {string(c.session.Boot)}, "order": {order}}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		strings.TrimSuffix(server, "/")+"/v1/node/state/send?"+q.Encode(),
		body,
	)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.session.Session)
	req.Header.Set("Expect", "100-continue") // what is refused is not sent
	resp, err := c.control.Patient().Do(req)
	if p := body.failed.Load(); p != nil {
		return p
	}
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return control.ReadRefusal(resp)
	}
	return nil
}

// packer is what tar writes, as the body of a request: it ends well only when tar did, so that half of a state
// never looks like a whole one.
type packer struct {
	tar     *tar
	out     io.Reader
	wait    func() error
	stalled *time.Timer // runs while the server is to take something
	live    bool
	failed  atomic.Pointer[problem.Problem]
}

// Read reads what tar writes.
func (p *packer) Read(b []byte) (int, error) {
	p.stalled.Stop()
	n, err := p.out.Read(b)
	if err == nil {
		p.stalled.Reset(courierStalled)
		return n, nil
	}
	p.stalled.Reset(courierKept)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	var status *exec.ExitError
	if err := p.wait(); err != nil &&
		!(p.live && errors.As(err, &status) && status.ExitCode() == 1) { // 1: a file has changed
		p.failed.Store(p.tar.failure(err))
		return n, err
	}
	return n, io.EOF
}

// Close ends a tar whose output nobody wants any more.
func (p *packer) Close() error {
	_ = p.tar.Process.Kill()
	_ = p.wait()
	return nil
}

// fetch unpacks what another node sent into a directory. When it returns an error, what is there is of no use.
func (c stateCourier) fetch(ctx context.Context, order, digest, to string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := c.control.Stream(
		ctx,
		"/v1/node/state/fetch",
		"Bearer "+c.session.Session,
		api.StateFetch{Boot: c.session.Boot, Order: order},
	)
	if err != nil {
		return err
	}
	if body == nil {
		return &problem.Problem{Err: errors.New("the server has sent nothing"), Final: true}
	}
	defer body.Close()
	stalled := time.AfterFunc(courierStalled, func() { cancel(errors.New("the server gives nothing any more")) })
	defer stalled.Stop()
	sum := sha256.New()
	in := &unpacker{in: io.TeeReader(body, sum), stalled: stalled}
	t := newTar(
		ctx,
		append([]string{"--extract", "--preserve-permissions", "--same-owner", "--directory=" + to}, tarOptions...),
	)
	t.Stdin = in
	err = t.Run()
	if err == nil {
		_, err = io.Copy(io.Discard, in) // tar stops at the archive's end
	}
	if in.failed != nil {
		return errors.Join(context.Cause(ctx), in.failed)
	}
	if err != nil {
		return t.failure(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return &problem.Problem{
			Err:   errors.New("what came is not what the other node sent"),
			Hint:  "order the copy again",
			Final: true,
		}
	}
	return nil
}

// unpacker is what tar reads. It remembers that the way failed: then it is worth another try.
type unpacker struct {
	in      io.Reader
	stalled *time.Timer // runs while the server is to give something
	failed  error
}

// Read reads what the server sends.
func (u *unpacker) Read(b []byte) (int, error) {
	u.stalled.Reset(courierStalled)
	n, err := u.in.Read(b)
	u.stalled.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		u.failed = err
	}
	return n, err
}

// tar is a run of the image's tar, with the end of what it complains about.
type tar struct {
	*exec.Cmd
	complaints tail
}

func newTar(ctx context.Context, options []string, files ...string) *tar {
	t := &tar{Cmd: exec.CommandContext(ctx, "tar", append(options, files...)...)}
	t.Stderr = &t.complaints
	return t
}

// failure is why tar ended. Another try would end so as well.
func (t *tar) failure(err error) *problem.Problem {
	return &problem.Problem{
		Err:   fmt.Errorf("tar: %w: %s", err, t.complaints),
		Hint:  "is there room, and is the image's tar GNU tar?",
		Final: true,
	}
}

// tailMost is how many bytes of complaints are told: their end.
const tailMost = 400

// tail is the end of what is written to it.
type tail []byte

// Write keeps what comes, and forgets what came long before.
func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-tailMost):]
	return len(b), nil
}
