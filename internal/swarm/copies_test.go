package swarm

import (
	"slices"
	"testing"
	"time"
)

// A piece that no read waits for soon is sent once, however much room there is. An urgent piece may be sent again.
func TestWhatIsForLaterIsSentOnce(t *testing.T) {
	for soon := range 2 {
		tr := newTracker()
		for n := byte(1); n <= 2; n++ {
			join(t, tr, 0, n)
		}
		for n := byte(1); n <= 2; n++ {
			q := having(n, 39)
			q.Urgent = soon
			if a, _, _ := tr.Ask(time.Duration(n)*12*time.Second, q); len(a.Grant) != max(soon, 2-int(n)) {
				t.Errorf("soon %d, node %d: granted %v", soon, n, a.Grant)
			}
			tr.Sent("p", at(n), 39)
		}
	}
}

// Copies that went to members that have left do not count, if no other member has the piece. Otherwise a piece whose
// two copies went to nodes that were then banned would be missing for seconds.
func TestCopiesOfThoseWhoAreGoneDoNotCount(t *testing.T) {
	tr := newTracker()
	for n := byte(1); n <= 3; n++ {
		join(t, tr, 0, n)
	}
	ask := func(n byte, now time.Duration) []int {
		q := question(n, 0)
		q.Limit = 1
		a, _, _ := tr.Ask(now, q)
		tr.Sent("p", at(n), 0)
		return a.Grant
	}
	for n := byte(1); n <= 2; n++ {
		if got := ask(n, time.Duration(n)*12*time.Second); !slices.Equal(got, []int{0}) {
			t.Fatalf("node %d is granted %v", n, got)
		}
	}
	tr.Busy(true) // the server sends only what is needed
	now := 25 * time.Second
	if got := ask(3, now); len(got) > 0 {
		t.Fatalf("a third copy: %v", got)
	}
	tr.Leave("p", at(1))
	tr.Leave("p", at(2))
	replies, _ := tr.Step(now + ms)
	if len(replies) != 1 || !slices.Equal(replies[0].Grant, []int{0}) {
		t.Errorf("both are gone: %+v", replies)
	}
}
