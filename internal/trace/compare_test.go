package trace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func ms(values ...int) []time.Duration {
	out := make([]time.Duration, len(values))
	for i, v := range values {
		out[i] = time.Duration(v) * time.Millisecond
	}
	return out
}

// TestRankSum: without ties, p is the share of orders that are as extreme (2 of 20, 2 of 70, 174 of 252, 60 of 1716).
// With ties it is that of the normal distribution, calculated by hand: z = (5.5-0.5)/sqrt(16/12*(9-30/56)).
func TestRankSum(t *testing.T) {
	for _, c := range []struct {
		a, b []time.Duration
		p    float64
	}{
		{ms(1, 2, 3), ms(4, 5, 6), 0.1},
		{ms(1, 2, 3, 4), ms(5, 6, 7, 8), 0.02857143},
		{ms(1, 3, 5, 7, 9), ms(2, 4, 6, 8, 10), 0.6904762},
		{ms(1), ms(2), 1},
		{ms(10, 20, 30, 40, 50, 60), ms(35, 45, 55, 65, 75, 85, 95), 0.03496503},
		{ms(1, 2, 2, 3), ms(2, 3, 4, 5), 0.136658},
		{ms(5, 5, 5), ms(5, 5, 5), 1},
		{nil, ms(1), 1},
	} {
		for _, p := range []float64{rankSum(c.a, c.b), rankSum(c.b, c.a)} {
			if math.Abs(p-c.p) > 5e-4 {
				t.Errorf("%v against %v: p = %.6f, want %.6f", c.a, c.b, p, c.p)
			}
		}
	}
}

// Both methods agree where both are valid.
func TestRankSumExactAndNormal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a, b := make([]time.Duration, 20), make([]time.Duration, 18)
		for i := range a {
			a[i] = time.Duration(r.Int64N(1e9))
		}
		for i := range b {
			b[i] = time.Duration(r.Int64N(1e9)) + 1e8
		}
		u, ties := uStatistic(a, b)
		if x, n := exactP(u, 20, 18), normalP(u, 20, 18, ties); math.Abs(x-n) > 0.01 {
			t.Fatalf("exact %.4f, normal %.4f", x, n)
		}
	}
}

// someBoots returns n boots whose image takes a time, more or less by up to a fifth.
func someBoots(r *rand.Rand, n int, image time.Duration) []Ends {
	var out []Ends
	for range n {
		noise := func(d time.Duration) time.Duration { return d*9/10 + time.Duration(r.Int64N(int64(d)/5)) }
		at := noise(2 * time.Second)
		e := Ends{DHCP: at}
		for _, s := range []struct {
			stage Stage
			took  time.Duration
		}{{Kernel, time.Second}, {Init, 4 * time.Second}, {Root, time.Second}, {SwitchRoot, 200 * time.Millisecond},
			{Booted, image}} {
			at += noise(s.took)
			e[s.stage] = at
		}
		out = append(out, e)
	}
	return out
}

// TestCompare finds a version that is slower in its own part, and the part. It does not report a version that is not
// slower.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	slower := Compare(someBoots(r, 12, 10*time.Second), someBoots(r, 15, 14*time.Second))
	if !slower[0].Real || Culprit(slower) != Booted {
		t.Errorf("whole boot %+v, culprit %q", slower[0], Culprit(slower))
	}
	if d := slower[0].Shift; d < 3*time.Second || d > 5*time.Second {
		t.Errorf("shift %s", d)
	}
	if c := Compare(someBoots(r, 3, 10*time.Second), someBoots(r, 3, 14*time.Second)); c[0].Real {
		t.Errorf("three boots prove nothing, but: %+v", c[0])
	}
	if c := Compare(nil, someBoots(r, 3, time.Second)); c[0].Real || c[0].P != 1 || Culprit(c) != "" {
		t.Errorf("nothing to compare with, but: %+v", c[0])
	}
}

// TestCompareIsNotTakenIn: of two hundred comparisons of equal boots, about as many whole boots as Sure says look
// changed, and all stages together not many more.
func TestCompareIsNotTakenIn(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	whole, stages := 0, 0
	for range 200 {
		c := Compare(someBoots(r, 20, 10*time.Second), someBoots(r, 20, 10*time.Second))
		if c[0].P < Sure {
			whole++
		}
		for _, s := range c[1:] {
			if s.Real {
				stages++
				break
			}
		}
	}
	if whole > 7 || stages > 7 {
		t.Errorf("%d whole boots and the stages of %d look changed by chance", whole, stages)
	}
	t.Logf("by chance: %d whole boots, stages of %d", whole, stages)
}

// TestParts: the parts of a boot add up to the whole, whatever the clocks show.
func TestParts(t *testing.T) {
	e := Ends{
		DHCP:     2 * time.Second,
		Kernel:   3 * time.Second,
		Init:     2900 * time.Millisecond,
		Booted:   9 * time.Second,
		Shutdown: time.Hour,
	}
	var sum time.Duration
	for _, p := range e.Parts() {
		if p.Took < 0 || p.Start != sum {
			t.Errorf("%+v after %s", p, sum)
		}
		sum += p.Took
	}
	if total, ok := e.Total(); !ok || sum != total {
		t.Errorf("parts are %s, the whole is %s", sum, total)
	}
}
