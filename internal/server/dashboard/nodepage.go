package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
)

// nodeView is the content of a node's page.
type nodeView struct {
	Node    api.Node
	Mood    mood
	Label   string
	Why     string // what decides which version its next boot gets
	Boots   []api.Boot
	Groups  []api.Group
	Images  []api.Image
	Last    api.BootDetail // the latest of Boots
	Console string         // the end of the latest boot's console
	Journal journalView
	Power   powerView
	Keeps   []keptRow // what it keeps across boots
	KeepsTo []string  // pending orders about it, and orders that failed
	Slow    int64     // duration of the longest of Boots in nanoseconds: the scale of bars
}

// nodeBoots is how many boots a node's page lists.
const nodeBoots = 12

func (d *Dashboard) nodePage(r *http.Request) (view, error) {
	ctx := r.Context()
	after := d.Feed.Last()
	n, err := d.API.Node(ctx, r.PathValue("name"))
	if err != nil {
		return view{}, err
	}
	t := newTile(n)
	v := nodeView{Node: n, Mood: t.mood(), Label: strings.TrimPrefix(t.label(), n.Name+": ")}
	if v.Boots, err = d.API.Boots(ctx, n.Name, nodeBoots); err != nil {
		return view{}, err
	}
	for _, b := range v.Boots {
		v.Slow = max(v.Slow, int64(b.Elapsed))
	}
	if n.Boot != nil {
		if v.Last, err = d.API.Boot(ctx, n.Boot.ID); err != nil && !api.IsCode(err, api.NotFound) {
			return view{}, err
		}
		v.Console = lastLines(v.Last.ConsoleLines(), consoleTail)
	}
	if v.Groups, err = d.API.Groups(ctx); err != nil {
		return view{}, err
	}
	if v.Images, err = d.API.Images(ctx); err != nil {
		return view{}, err
	}
	if v.Power, err = d.powerOf(ctx, n.Name); err != nil && n.State != fleet.Discovered {
		return view{}, err
	}
	if v.Keeps, v.KeepsTo, err = d.keptBy(ctx, n); err != nil {
		return view{}, err
	}
	v.Why = why(n, v.Groups)
	live := liveOf("node", n.Name, after)
	if n.Boot != nil {
		v.Journal, live = d.journalOf(r, n.Name, live)
	}
	if o := v.Power.Last; o != nil && !o.Done {
		live += "&tick=1" // the end of the action may come without an event
	}
	return view{template: "node.html", title: n.Name, live: live, data: v}, nil
}

// consoleTail is how many lines of a console a node's page shows.
const consoleTail = 25

func lastLines(lines []string, most int) string {
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

// why says what decides which version the next boot of a node gets.
func why(n api.Node, groups []api.Group) string {
	switch {
	case n.State == fleet.Discovered:
		return "nobody has adopted it: it is told to wait"
	case n.Rollout != "":
		return "rollout " + n.Rollout + " has come to it"
	case n.Version != "":
		return "set for this node: " + fleet.RefText(n.Version, n.Follow)
	}
	for _, g := range groups {
		if g.Name == n.Group && g.Image != "" {
			if g.Follow {
				return "group " + g.Name + " follows the tag " + string(g.Image)
			}
			return "group " + g.Name + " boots " + g.Image.Short()
		}
	}
	return "group " + n.Group + " has no image"
}

// adopt adopts an unknown machine.
func (d *Dashboard) adopt(r *http.Request) (string, error) {
	a := api.NodeAdopt{Select: r.PathValue("name"), Name: r.PostFormValue("name")}
	if g := r.PostFormValue("group"); g != "" {
		a.Group = &g
	}
	done, err := d.API.AdoptNodes(r.Context(), a)
	d.board.refresh()
	if err != nil || len(done.Nodes) != 1 {
		return "/", err
	}
	return "/nodes/" + url.PathEscape(cmp.Or(a.Name, done.Nodes[0].Node)), nil
}

// setGroup moves a node to another group.
func (d *Dashboard) setGroup(r *http.Request) (string, error) {
	g := r.PostFormValue("group")
	return d.change(r, api.NodeSet{Group: &g})
}

// setVersion sets the node's own version, or removes it.
func (d *Dashboard) setVersion(r *http.Request) (string, error) {
	v := fleet.Ref(r.PostFormValue("version"))
	return d.change(r, api.NodeSet{Version: &v})
}

func (d *Dashboard) change(r *http.Request, s api.NodeSet) (string, error) {
	s.Select = r.PathValue("name")
	_, err := d.API.SetNodes(r.Context(), s)
	d.board.refresh()
	return "/nodes/" + url.PathEscape(s.Select), err
}
