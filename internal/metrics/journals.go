package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Journals describes the journals that nodes send.
type Journals struct {
	Up             bool  // journals are kept; the other fields count only then
	Size, Limit    int64 // disk space in bytes, and its limit
	Entries, Bytes int64 // written since the server started
	Uploads        map[string]int64
	Last           time.Time // time of the last write; zero: never
	Full           bool      // the disk was too full for the last upload
}

// The metrics of Journals.
var (
	journalUpDesc    = desc("pando_journal_up", "1 if this server takes the journals of nodes.")
	journalSizeDesc  = desc("pando_journal_size_bytes", "Bytes of the disk that the journals of nodes have.")
	journalLimitDesc = desc("pando_journal_limit_bytes", "Bytes of the disk that the journals of nodes may have.")
	journalFullDesc  = desc("pando_journal_disk_full", "1 if the disk had no room for what a node sent last.")
	journalLastDesc  = desc(
		"pando_journal_last_upload_timestamp_seconds",
		"When lines of a node were written last; 0 for never.",
	)
	journalEntriesDesc = desc(
		"pando_journal_entries_total",
		"Entries of journals that came from nodes and were written.",
	)
	journalBytesDesc   = desc("pando_journal_received_bytes_total", "Bytes of these entries, as nodes send them.")
	journalUploadsDesc = desc(
		"pando_journal_uploads_total",
		"Uploads of journals that ended, by outcome: taken, cut_off (the node went away), busy, disk_full, "+
			"malformed, stranger (no certificate of a latest boot), failed. What was not taken is sent again.",
		"outcome",
	)
)

func (j Journals) tell(gauge, count tell) {
	number := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge(journalUpDesc, number(j.Up))
	if !j.Up {
		return
	}
	gauge(journalSizeDesc, float64(j.Size))
	gauge(journalLimitDesc, float64(j.Limit))
	gauge(journalFullDesc, number(j.Full))
	last := 0.0
	if !j.Last.IsZero() {
		last = float64(j.Last.UnixMilli()) / 1000
	}
	gauge(journalLastDesc, last)
	count(journalEntriesDesc, float64(j.Entries))
	count(journalBytesDesc, float64(j.Bytes))
	for outcome, n := range j.Uploads {
		count(journalUploadsDesc, float64(n), outcome)
	}
}

// telling returns a function that sends metrics of one kind.
func telling(kind prometheus.ValueType, out chan<- prometheus.Metric) tell {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
}
