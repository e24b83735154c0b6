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
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// stallLimit is how long a transfer may make no progress. The server may need some of it to write a large state to its
// disk.
const stallLimit = 10 * time.Minute

// Exit statuses of the commands that move state. courierAgain: the caller may try again. courierNever: the server or
// tar refused for good. courierAlone: this boot has no server.
const (
	courierAgain = 1
	courierNever = 2
	courierAlone = 3
)

// courier copies this node's state to the server, or another node's state from there.
type courier struct {
	session rundir.Session
	control *control.Client
	end     context.CancelCauseFunc // ends the copy
	idle    *time.Timer             // ends the copy; each read starts it again
}

// Run is the program of the node state scripts: state-send ORDER DIRECTORY, or state-fetch ORDER DIGEST DIRECTORY. It
// prints an error as one line, and returns the exit status.
func Run(dir string, args []string, stderr io.Writer) int {
	var c courier
	err := rundir.ReadJSON(dir, rundir.SessionName, &c.session)
	if err == nil {
		c.control, err = control.New(c.session.Control, c.session.ServerKey, nil)
	}
	if err != nil || c.session.Session == "" {
		fmt.Fprintln(stderr, "this boot has no server:", err)
		return courierAlone
	}
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	c.end, c.idle = end, time.AfterFunc(stallLimit, func() { end(errors.New("the transfer has stalled")) })
	defer c.idle.Stop()
	if args[0] == "state-send" {
		err = c.send(ctx, args[1], args[2])
	} else {
		err = c.fetch(ctx, args[1], args[2], args[3])
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // why the copy ended, err only follows from it
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

// send sends the content of a directory. The body ends well only if tar succeeded, so that an incomplete state never
// looks complete.
func (c courier) send(ctx context.Context, order, from string) error {
	q := url.Values{"boot": {string(c.session.Boot)}, "order": {order}}
	return c.control.Upload(ctx, "/v1/node/state/send?"+q.Encode(), "Bearer "+c.session.Session, func() io.Reader {
		out, in := io.Pipe()
		go func() {
			in.CloseWithError(tar(ctx, nil, in, "--create", "--sparse", "--one-file-system", "--directory="+from,
				"--anchored", "--exclude=./+pando", "--exclude=./lost+found", "--exclude=./.new+*", "."))
		}()
		return reader{out, c}
	})
}

// fetch unpacks another node's state into a directory. After an error the content of the directory is unusable.
func (c courier) fetch(ctx context.Context, order, digest, to string) error {
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
		body = http.NoBody
	}
	defer body.Close()
	sum := sha256.New()
	in := reader{io.TeeReader(body, sum), c}
	err = tar(ctx, in, nil, "--extract", "--preserve-permissions", "--same-owner", "--directory="+to)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // tar does not read beyond the archive's end
	}
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != digest {
		err = &problem.Problem{
			Err:   errors.New("the received state is not what the other node sent"),
			Hint:  "order the copy again",
			Final: true,
		}
	}
	return err
}

// reader is what is copied. The copy ends when it cannot be read.
type reader struct {
	io.Reader
	courier
}

// Read reads what is copied.
func (r reader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.idle.Reset(stallLimit)
	if err != nil && !errors.Is(err, io.EOF) {
		r.end(err)
	}
	return n, err
}

// tarOptions make tar keep the metadata of a system's files. They need GNU tar, which Debian, Fedora and their
// derivatives have.
var tarOptions = []string{"--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"}

// tar runs the image's tar. An error is final: another try would fail too.
func tar(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	var complaints tail
	c := exec.CommandContext(ctx, "tar", slices.Concat(tarOptions, args)...)
	c.Stdin, c.Stdout, c.Stderr = in, out, &complaints
	if err := c.Run(); err != nil {
		return &problem.Problem{
			Err:   fmt.Errorf("tar: %w: %s", err, complaints),
			Hint:  "is there room, and is the image's tar GNU tar?",
			Final: true,
		}
	}
	return nil
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
