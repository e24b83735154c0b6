package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/output"
)

// mapOf says which nodes a map shows, how it is divided, and what its colours mean.
type mapOf struct {
	Select string // a node set; "": all
	By     string // "" by group, otherwise a label
	Colour string // "" by stage, "version"

	set *fleet.Set // nil: all
	err error      // Select is not valid
}

func mapQuery(q url.Values) mapOf {
	m := mapOf{Select: strings.TrimSpace(q.Get("select")), By: q.Get("by"), Colour: q.Get("colour")}
	if m.Select != "" {
		set, err := fleet.ParseSet(m.Select)
		m.set, m.err = &set, err
	}
	return m
}

// Link returns the URL of m with one parameter changed.
func (m mapOf) Link(key, value string) string { return "/?" + m.query(key, value) }

func (m mapOf) query(key, value string) string {
	q := url.Values{}
	for _, p := range [][2]string{{"select", m.Select}, {"by", m.By}, {"colour", m.Colour}} {
		if p[0] == key {
			p[1] = value
		}
		if p[1] != "" {
			q.Set(p[0], p[1])
		}
	}
	return q.Encode()
}

// shows reports whether a node is on the map.
func (m mapOf) shows(t *tile) bool { return m.err == nil && (m.set == nil || m.set.Match(t.node)) }

// place returns the name of the area that a node is in.
func (m mapOf) place(t *tile) string {
	switch {
	case t.node.State == fleet.Discovered:
		return placeUnknown
	case m.By == "":
		return t.node.Group
	}
	return cmp.Or(t.node.Labels[m.By], placeNowhere)
}

// Areas for nodes without a group or the label.
const (
	placeUnknown = "waiting to be adopted"
	placeNowhere = "elsewhere"
)

// area is one part of the map.
type area struct {
	Name  string
	Note  string // for a group: its image
	Dense bool   // there are too many tiles to show names
	Tiles []tileView
}

type tileView struct {
	Name, Tag, Class, Label string
}

// dense is the number of tiles above which they show no names.
const dense = 400

// areas returns the areas of the map with their tiles.
func (m mapOf) areas(tiles []tile, notes map[string]string) []area {
	colours := m.legend(tiles)
	at := map[string]*area{}
	shown := 0
	for i := range tiles {
		t := &tiles[i]
		if !m.shows(t) {
			continue
		}
		shown++
		name := m.place(t)
		a := at[name]
		if a == nil {
			a = &area{Name: name, Note: notes[name]}
			at[name] = a
		}
		a.Tiles = append(a.Tiles, tileView{t.node.Name, "", t.class(colours), t.label()})
	}
	out := make([]area, 0, len(at))
	for _, name := range slices.SortedFunc(maps.Keys(at), comparePlaces) {
		a := at[name]
		a.Dense = shown > dense
		if !a.Dense {
			shorten(a.Tiles)
		}
		out = append(out, *a)
	}
	return out
}

// comparePlaces orders areas: machines to adopt first, nodes without the label last.
func comparePlaces(a, b string) int {
	rank := func(s string) int {
		switch s {
		case placeUnknown:
			return -1
		case placeNowhere:
			return 1
		}
		return 0
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// shorten removes from tiles' names what all of them start with: "pc001" and "pc002" become 001 and 002.
func shorten(tiles []tileView) {
	common := tiles[0].Name
	for _, t := range tiles {
		for !strings.HasPrefix(t.Name, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.TrimRight(common, "0123456789")
	for i := range tiles {
		if tag := strings.TrimPrefix(tiles[i].Name, common); tag != "" && len(tag) <= 4 {
			tiles[i].Tag = tag
			continue
		}
		tiles[i].Tag = strings.TrimLeft(tiles[i].Name[max(0, len(tiles[i].Name)-4):], "-._")
	}
}

func noCounts() map[mood]int {
	n := map[mood]int{}
	for _, kind := range moods {
		n[kind] = 0
	}
	return n
}

// count returns the number of nodes on the map by mood.
func (m mapOf) count(tiles []tile) map[mood]int {
	n := noCounts()
	for i := range tiles {
		if m.shows(&tiles[i]) {
			n[tiles[i].mood()]++
		}
	}
	return n
}

// legend returns the colours of the running versions; nil if colours mean stages.
func (m mapOf) legend(tiles []tile) *legend {
	if m.Colour != "version" {
		return nil
	}
	n := map[fleet.Digest]int{}
	for i := range tiles {
		if t := &tiles[i]; m.shows(t) && t.running != "" {
			n[t.running]++
		}
	}
	l := &legend{place: map[fleet.Digest]int{}}
	order := slices.SortedFunc(
		maps.Keys(n),
		func(a, b fleet.Digest) int { return cmp.Or(n[b]-n[a], strings.Compare(string(a), string(b))) },
	)
	for i, v := range order {
		l.place[v] = i
		l.versions = append(l.versions, versionCount{v, n[v], l.class(v)})
	}
	return l
}

// patch returns changed tiles for the script: name, class, label. It returns nil if none is on the map.
func (m mapOf) patch(tiles []tile, colours *legend) [][3]string {
	var out [][3]string
	for i := range tiles {
		if t := &tiles[i]; m.shows(t) {
			out = append(out, [3]string{t.node.Name, t.class(colours), output.OneLine(t.label())})
		}
	}
	return out
}

// fleetView is the content of the map's page.
type fleetView struct {
	Map     mapOf
	Failure string // the node set is not valid
	Counts  []moodCount
	Total   int
	Areas   []area
	Keys    []string // labels by which the map can be divided
	Legend  []versionCount
	Failed  []api.Boot // boots with a fault
	Others  int        // number of such boots that are not listed
	Empty   bool       // the site has no nodes
}

type moodCount struct {
	Mood  mood
	Nodes int
}

// mostFailed is how many failures are listed above the map; the map itself shows the rest.
const mostFailed = 6

func (d *Dashboard) fleetPage(r *http.Request) (view, error) {
	if err := d.board.look(r.Context()); err != nil {
		return view{}, err
	}
	s, m := d.board.since(0), mapQuery(r.URL.Query())
	notes := map[string]string{}
	if m.By == "" {
		groups, err := d.API.Groups(r.Context())
		if err != nil {
			return view{}, err
		}
		for _, g := range groups {
			notes[g.Name] = groupNote(g)
		}
	}
	v := fleetView{Map: m, Areas: m.areas(s.tiles, notes), Keys: labelKeys(s.tiles), Empty: len(s.tiles) == 0}
	if m.err != nil {
		v.Failure = m.err.Error()
	}
	counts := m.count(s.tiles)
	for _, kind := range moods {
		v.Counts = append(v.Counts, moodCount{kind, counts[kind]})
		v.Total += counts[kind]
	}
	if l := m.legend(s.tiles); l != nil {
		v.Legend = l.versions
	}
	if m.err == nil {
		var err error
		if v.Failed, v.Others, err = d.faults(r.Context(), m.Select, mostFailed); err != nil {
			return view{}, err
		}
	}
	live := url.Values{"fleet": {"1"}, "after": {d.board.mark(s.rev)}}
	return view{template: "fleet.html", title: "Fleet", live: live.Encode() + "&" + m.query("", ""), data: v}, nil
}

// faults returns at most `most` latest boots with a fault of some nodes, and how many more there are.
func (d *Dashboard) faults(ctx context.Context, nodes string, most int) (boots []api.Boot, others int, err error) {
	boots, err = d.API.FailedBoots(ctx, nodes, 0)
	if api.IsCode(err, api.BadRequest) || api.IsCode(err, api.NotFound) {
		return nil, 0, nil // a node set without nodes
	}
	others = max(len(boots)-most, 0)
	return boots[:len(boots)-others], others, err
}

func groupNote(g api.Group) string {
	if g.Image == "" {
		return "no image"
	}
	if g.Follow {
		return fmt.Sprintf("follows %s\u2002%s", g.Image, g.Desired.Short())
	}
	return g.Image.Short()
}

// labelKeys returns the labels that any node has.
func labelKeys(tiles []tile) []string {
	keys := map[string]bool{}
	for i := range tiles {
		for k := range tiles[i].node.Labels {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
