package metrics

import (
	"container/list"
	"strings"
	"unicode/utf8"
)

// maxRuns limits the pairs of group and version that have series of their own: those that booted last.
const maxRuns = 400

// Run is what a node boots. It gives the labels of most metrics of boots.
type Run struct {
	Group   string
	Image   string // name without the tag
	Version string // shortened
}

// labels returns the label values of a run.
func (r Run) labels() []string { return []string{clean(r.Group), clean(r.Image), clean(r.Version)} }

// runNames are the names of these labels.
var runNames = []string{"group", "image", "version"}

// recent holds the keys that were used last.
type recent[K comparable] struct {
	most  int
	at    map[K]*list.Element // of K
	order list.List           // latest first
}

// use records the use of a key. If another key must be dropped for it, it returns that key.
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

// clean returns s as a valid label value.
func clean(s string) string {
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "?")
	}
	return s
}

// word returns s as a label value: in lower case, and cut to the length of the longest known one.
func word(s string) string { return clean(strings.ToLower(s[:min(len(s), 24)])) }
