package blockd

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/testkit/cachekit"
)

// stuck is a disk whose reads never return.
type stuck struct {
	pendingCache
	reads chan struct{}
}

func (k *stuck) Get(chunk.ID, int64) (chunk.Verified, bool) {
	<-k.reads
	return chunk.Verified{}, false
}

// A cache that never answers is on the timeline, once.
func TestCacheThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &blockDaemon{log: quietLog(), ledger: testLedger(t), cfg: blockapi.Config{Disk: cachekit.NewDisk(t)}}
		d.openCache(t.Context())
		k := &stuck{reads: make(chan struct{})}
		d.through.Backend = k
		for n := range 10 {
			d.through.Lookup(t.Context(), chunk.Request{ID: chunk.Sum([]byte{byte(n)})})
		}
		time.Sleep(time.Minute)
		got := d.ledger.incidents(0)
		if !slices.Equal(kinds(blockapi.Status{Incidents: got}), []blockapi.IncidentKind{blockapi.CacheFailed}) ||
			!strings.Contains(got[0].Message, "too late") ||
			got[0].Source == "" {
			t.Errorf("incidents %+v", got)
		}
		close(k.reads)
	})
}
