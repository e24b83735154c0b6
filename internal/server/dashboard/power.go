package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Times of actions. powerAtOnce is how long a browser waits before it sees the node's page again, which shows the
// result later. A node may take minutes, a controller takes seconds.
const (
	powerTime    = 5 * time.Minute
	powerAtOnce  = 2 * time.Second
	powerHistory = 12 * time.Hour // how long the page shows the last action
)

// asked holds the last action on pages for each node.
type asked struct {
	mu sync.Mutex
	of map[string]*outcome
}

// outcome is the result of an action.
type outcome struct {
	Action api.PowerAction
	By     string
	Begun  time.Time
	Done   bool
	Did    string // "": nothing had to be done
	Failed string
	Hint   string
}

// begin records an action, unless another one of the node is running.
func (a *asked) begin(node string, o outcome) (*outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.of[node]; was != nil && !was.Done {
		return nil, api.NewError(
			api.Conflict,
			fmt.Sprintf("%s of %s is under way", was.Action, node),
			"wait for its end: it is on the node's page",
		)
	}
	if a.of == nil {
		a.of = map[string]*outcome{}
	}
	a.of[node] = &o
	return &o, nil
}

func (a *asked) end(o *outcome, did string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.Done, o.Did = true, did
	if err != nil {
		t := troubleOf(err)
		o.Failed, o.Hint = t.Message, t.Hint
	}
}

// last returns the last action of a node, if it is recent.
func (a *asked) last(node string, now time.Time) *outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of[node]
	if o == nil || now.Sub(o.Begun) > powerHistory {
		return nil
	}
	was := *o
	return &was
}

// powerView is the part of a node's page about its power.
type powerView struct {
	api.PowerView
	Last *outcome
}

// Switch reports whether the server can switch the node's power without the node's help.
func (p powerView) Switch() bool { return p.Method != fleet.PowerNone && p.Problem == "" }

// powerOf returns the part of a node's page about its power.
func (d *Dashboard) powerOf(ctx context.Context, node string) (v powerView, err error) {
	all, err := d.API.Power(ctx, node)
	if len(all) == 1 {
		v.PowerView = all[0]
	}
	v.Last = d.asked.last(node, d.Now())
	return v, err
}

// powerActions are the actions that pages offer. harmfulActions end what runs on the node.
var (
	powerActions   = []api.PowerAction{api.PowerAuto, api.PowerReboot, api.PowerOn, api.PowerOff, api.PowerCycle}
	harmfulActions = []api.PowerAction{api.PowerAuto, api.PowerReboot, api.PowerOff, api.PowerCycle}
)

// setPower switches a node's power or reboots the node. The action outlives the request, so that a page that is closed
// does not interrupt it.
func (d *Dashboard) setPower(r *http.Request) (string, error) {
	node, action := r.PathValue("name"), api.PowerAction(r.PostFormValue("action"))
	if !slices.Contains(powerActions, action) {
		return "", api.NewError(
			api.BadRequest,
			fmt.Sprintf("this page cannot do %q", action),
			"go back and choose",
		)
	}
	if slices.Contains(harmfulActions, action) && r.PostFormValue("sure") != "yes" {
		return "", api.NewError(
			api.BadRequest,
			fmt.Sprintf("%s would stop the programs that run on %s", action, node),
			"go back and tick the box beside it, if they may be stopped",
		)
	}
	by, _ := r.Context().Value(sessionKey{}).(session)
	o, err := d.asked.begin(node, outcome{Action: action, By: by.Name, Begun: d.Now()})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), powerTime)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		done, err := d.API.SwitchNode(ctx, node, api.PowerDo{Action: action})
		d.asked.end(o, done.Did, err)
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-time.After(powerAtOnce):
	}
	return "/nodes/" + url.PathEscape(node), err
}
