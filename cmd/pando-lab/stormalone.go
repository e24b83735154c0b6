package main

import (
	"context"
	"os"
	"time"

	"pando/internal/testkit"
)

// One node alone is compared on a link that it does not wait for: what a boot takes there is latency and processor time.
const (
	aloneLink  = testkit.Gbit
	aloneThink = 6 * time.Second // what a boot of a fast machine takes beside its reads
)

// localDisk is what everything else is compared with: the raw image as a file of this machine, in its page cache.
var localDisk = system{name: "local", what: "the raw image as a local file", attach: func(ctx context.Context, n *node) (root, error) {
	raw, err := n.m.rawFile(ctx)
	if err != nil {
		return nil, err
	}
	r := &wholeRoot{}
	r.File, err = os.Open(raw)
	return r, err
}}

// alone are the systems that are compared so.
func aloneSystems() []string { return []string{bestName(), "nbd-squash", localDisk.name} }

// bestName is all of Pando that there is.
func bestName() string {
	all := own()
	return all[len(all)-1].name
}

// planAlone lists the runs, in turns.
func (s *storm) planAlone() (out []job) {
	for again := range s.alone {
		for _, name := range aloneSystems() {
			out = append(out, job{Set: setAlone, System: name, Nodes: 1, Again: again})
		}
	}
	return out
}
