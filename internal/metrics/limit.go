package metrics

import (
	"container/list"
	"strings"
	"unicode/utf8"
)

// maxRuns bounds the pairs of a group and a version that have series of their own: those that booted last.
const maxRuns = 400

// Run is what nodes boot: the labels of most of what is said of boots.
type Run struct {
	Group   string
	Image   string // without its tag
	Version string // shortened
}

// labels are a run's label values.
func (r Run) labels() []string { return []string{clean(r.Group), clean(r.Image), clean(r.Version)} }

// runNames are the names of these labels.
var runNames = []string{"group", "image", "version"}

// recent remembers the keys that were used last.
type recent[K comparable] struct {
	most  int
	at    map[K]*list.Element // of K
	order list.List           // latest first
}

// use notes a key, and returns the one that is to be forgotten for it.
func (r *recent[K]) use(k K) (gone K, forget bool) {
	if el, ok := r.at[k]; ok {
		r.order.MoveToFront(el)
		return gone, false
	}
	if r.at == nil {
		r.at = map[K]*list.Element{}
	}
	r.at[k] = r.order.PushFront(k)
	if r.order.Len() <= r.most {
		return gone, false
	}
	gone = r.order.Remove(r.order.Back()).(K)
	delete(r.at, gone)
	return gone, true
}

// clean makes text a label value.
func clean(s string) string {
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "?")
	}
	return s
}

// word is a label value of the few that there are: in small letters, and not longer than any of ours.
func word(s string) string { return clean(strings.ToLower(s[:min(len(s), 24)])) }
