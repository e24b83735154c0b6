package swarm

import (
	"slices"
	"testing"
	"time"
)

// What no read waits for soon is sent once, however much room there is; what one does is sent again.
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

// What was sent to members that are gone, and that nobody else has, is as good as not sent: both copies of a piece
// may have gone to peers that are banned then, and all boots waited for it until they lost their patience with the
// swarm, seven seconds of eleven.
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
	tr.Busy(true) // nothing is sent freely
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
