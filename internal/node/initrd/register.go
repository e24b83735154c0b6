package initrd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/tpm"
	"pando/internal/trace"
)

// clockError is how wrong the node's clock may be without being set. The image's NTP client corrects smaller errors.
const clockError = 2 * time.Second

// register exchanges the boot's token for a session and the assignment.
func (q *registration) register(
	ctx context.Context,
	loaded Modules,
	on Link,
	lease link.Lease,
) (*Session, string, error) {
	if q.timeline.channel.session.Load() != nil {
		// A later phase failed and went back. The token is used up: using it again would look like an attack.
		return q.session, "registered before, the assignment stays", nil
	}
	if q.nonce == "" {
		q.nonce = rand.Text()
	}
	h := q.hardware(loaded, on, lease)
	if err := q.beginBoot(ctx, h, lease); err != nil {
		return q.registerOffline(ctx, on, err)
	}
	cfg := q.timeline.config
	cfg.Boot = q.timeline.bootID()
	req := api.RegisterRequest{Boot: cfg.Boot, Token: q.timeline.token(), MAC: lease.MAC,
		Addr: lease.Address.Addr().String(), Release: q.timeline.release, Hardware: h, Nonce: q.nonce}
	if !q.timeline.config.MAC.IsZero() {
		req.MAC = q.timeline.config.MAC // the MAC that the token was made for; another adapter may have the link
	}
	q.proveMachine(&req)
	var resp api.RegisterResponse
	if err := q.timeline.control.Call(ctx, "/v1/node/hello", "", req, &resp); err != nil {
		return nil, "", registrationProblem(err, q.timeline.config.Control)
	}
	a, err := control.CheckAssignment(resp, cfg)
	if err != nil {
		return nil, "", &problem.Problem{Err: err, Final: true,
			Hint: "the server answered with something that is not for this boot: look at its log"}
	}
	q.timeline.assignment.Store(&a)
	q.session = &Session{Assignment: a, Answer: resp}
	q.timeline.channel.session.Store(&resp.Session)
	q.setClock(resp.Time)
	q.timeline.report.Wake()
	return q.session, fmt.Sprintf("%s in group %s runs %s", a.Node, a.Group, a.Image.Running(a.Version)), nil
}

// registerOffline uses the assignment of a kept boot if no server answers. If a server answered, even with an error,
// it returns err.
func (q *registration) registerOffline(ctx context.Context, on Link, err error) (*Session, string, error) {
	var r *control.Refused
	b := q.lastBoot(ctx, on.Adapters)
	if b == nil || errors.As(err, &r) {
		return nil, "", err
	}
	a := b.As
	q.timeline.assignment.Store(&a)
	return &Session{Assignment: a, Offline: b}, fmt.Sprintf(
		"no server answers; %s in group %s boots %s, which it was assigned on %s",
		a.Node,
		a.Group,
		a.Image.Running(a.Version),
		a.Issued.Format(time.DateTime),
	), nil
}

// proveMachine lets the machine's TPM sign the registration, if the server wants that. A failure is reported, and the
// node registers without a proof.
func (q *registration) proveMachine(req *api.RegisterRequest) {
	begun := q.timeline.begin.Load()
	if !q.timeline.config.TPM && (begun == nil || !begun.TPM) {
		return
	}
	var err error
	if req.TPM, err = tpm.Prove(tpm.Device, api.TPMDigest(*req, q.timeline.config.ServerKey)); err != nil {
		q.timeline.event(
			trace.Event{Stage: trace.Register, Kind: trace.Info, Message: "no proof by a TPM: " + err.Error(),
				Hint: "is its TPM 2.0 switched on in the firmware? without it the node boots without secrets"},
		)
	}
}

func registrationProblem(err error, urls []string) error {
	p := &problem.Problem{Err: fmt.Errorf("register with the server: %w", err), Tried: fmt.Sprint(urls)}
	var r *control.Refused
	var key *api.WrongKeyError
	switch {
	case errors.As(err, &r) && r.Err != nil && r.Err.Hint != "":
		p.Hint = r.Err.Hint
	case errors.As(err, &key):
		p.Hint = "another machine answers at the server's address, or the server's key was changed while this " +
			"node was booting"
	}
	// A used or unknown token stays invalid. The next boot gets another one.
	if r != nil {
		switch r.Status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusGone:
			p.Final = true
		}
	}
	return p
}

// setClock sets a wrong clock. The boot does not need it, but mail, certificates and logs of the image do.
func (q *registration) setClock(server time.Time) {
	off := time.Until(server)
	if server.IsZero() || off.Abs() < clockError {
		return
	}
	tv := unix.NsecToTimeval(server.UnixNano())
	message := wrongClock(off)
	if err := unix.Settimeofday(&tv); err != nil {
		message = "clock: cannot be set: " + err.Error()
	}
	q.timeline.event(trace.Event{Stage: trace.Register, Kind: trace.Info, Message: message})
}

// wrongClock describes the error of a clock that was off by so much behind the server's.
func wrongClock(off time.Duration) string {
	how := "behind"
	if off < 0 {
		how = "ahead of"
	}
	return fmt.Sprintf("clock: was %s %s the server's, set to it", off.Abs().Round(time.Second), how)
}
