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

// courierStalled is how long a transfer may make no progress. courierKept is how long the server may take to write
// what was sent to its disk.
const (
	courierStalled = 2 * time.Minute
	courierKept    = 15 * time.Minute
)

// Exit statuses of the commands that move state. courierAgain: the caller may try again. courierNever: the server or
// tar refused for good. courierAlone: this boot has no server.
const (
	courierAgain = 1
	courierNever = 2
	courierAlone = 3
)

// tarOptions make tar keep the metadata of a system's files. They need GNU tar, which Debian, Fedora and their
// derivatives have.
var tarOptions = []string{"--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"}

// stateCourier copies this node's state to the server, and another node's state from there.
type stateCourier struct {
	session rundir.Session
	control *control.Client
}

// Run is the program of the node state scripts: state-send ORDER DIRECTORY live|still, or state-fetch ORDER DIGEST
// DIRECTORY. It prints an error as one line, and returns the exit status.
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

// send sends the content of a directory. live: files may change meanwhile.
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
	stalled := time.AfterFunc(courierStalled, func() { cancel(errors.New("the server has stopped reading")) })
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
	req.Header.Set("Expect", "100-continue") // the server can refuse before the body is sent
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

// packer is tar's output as a request body. It ends with EOF only if tar succeeded, so that an incomplete state never
// looks complete.
type packer struct {
	tar     *tar
	out     io.Reader
	wait    func() error
	stalled *time.Timer // runs while the server is to read
	live    bool
	failed  atomic.Pointer[problem.Problem]
}

// Read reads tar's output.
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
		!(p.live && errors.As(err, &status) && status.ExitCode() == 1) { // status 1: a file changed while it was read
		p.failed.Store(p.tar.failure(err))
		return n, err
	}
	return n, io.EOF
}

// Close kills tar if it still runs.
func (p *packer) Close() error {
	_ = p.tar.Process.Kill()
	_ = p.wait()
	return nil
}

// fetch unpacks another node's state into a directory. After an error the content of the directory is unusable.
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
	stalled := time.AfterFunc(courierStalled, func() { cancel(errors.New("the server has stopped sending")) })
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
		_, err = io.Copy(io.Discard, in) // tar does not read beyond the archive's end
	}
	if in.failed != nil {
		return errors.Join(context.Cause(ctx), in.failed)
	}
	if err != nil {
		return t.failure(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return &problem.Problem{
			Err:   errors.New("the received state is not what the other node sent"),
			Hint:  "order the copy again",
			Final: true,
		}
	}
	return nil
}

// unpacker is tar's input. It records that the connection failed, because that is worth another try.
type unpacker struct {
	in      io.Reader
	stalled *time.Timer // runs while the server is to send
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

// tar is a run of the image's tar, with the end of its error output.
type tar struct {
	*exec.Cmd
	complaints tail
}

func newTar(ctx context.Context, options []string, files ...string) *tar {
	t := &tar{Cmd: exec.CommandContext(ctx, "tar", append(options, files...)...)}
	t.Stderr = &t.complaints
	return t
}

// failure returns why tar ended. It is final: another try would fail too.
func (t *tar) failure(err error) *problem.Problem {
	return &problem.Problem{
		Err:   fmt.Errorf("tar: %w: %s", err, t.complaints),
		Hint:  "is there room, and is the image's tar GNU tar?",
		Final: true,
	}
}

// tailMost is how many bytes at the end of tar's error output are reported.
const tailMost = 400

// tail keeps the last bytes that are written to it.
type tail []byte

// Write appends b and drops all but the last tailMost bytes.
func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-tailMost):]
	return len(b), nil
}
