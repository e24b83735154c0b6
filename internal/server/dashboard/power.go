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

// How long an action may take altogether, and how long a browser waits for it before it sees the node's page again,
// on which its end appears. A node is asked for minutes, a controller for seconds.
const (
	powerTime    = 5 * time.Minute
	powerAtOnce  = 2 * time.Second
	powerHistory = 12 * time.Hour // that the page tells of one
)

// asked are the actions that were asked for on pages, the last one of each node.
type asked struct {
	mu sync.Mutex
	of map[string]*outcome
}

// outcome is what became of an action.
type outcome struct {
	Action api.PowerAction
	By     string
	Begun  time.Time
	Done   bool
	Did    string // "": there was nothing to do
	Failed string
	Hint   string
}

// begin writes an action down, unless another one of the node is under way.
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

// last is what was asked for last of a node, if that is not long ago.
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

// Switch reports whether something can switch the node, beside itself.
func (p powerView) Switch() bool { return p.Method != fleet.PowerNone && p.Problem == "" }

// powerOf is what a node's page says of its power.
func (d *Dashboard) powerOf(ctx context.Context, node string) (v powerView, err error) {
	all, err := d.API.Power(ctx, node)
	if len(all) == 1 {
		v.PowerView = all[0]
	}
	v.Last = d.asked.last(node, d.Now())
	return v, err
}

// powerActions are what a page may ask for; harmful ones end what runs on the node.
var (
	powerActions   = []api.PowerAction{api.PowerAnew, api.PowerReboot, api.PowerOn, api.PowerOff, api.PowerCycle}
	harmfulActions = []api.PowerAction{api.PowerAnew, api.PowerReboot, api.PowerOff, api.PowerCycle}
)

// setPower switches a node or has it boot anew. It outlives the request: who closes the page does not leave half of it.
func (d *Dashboard) setPower(r *http.Request) (string, error) {
	node, action := r.PathValue("name"), api.PowerAction(r.PostFormValue("action"))
	if !slices.Contains(powerActions, action) {
		return "", api.NewError(
			api.BadRequest,
			fmt.Sprintf("%q is none of what this page can do", action),
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
