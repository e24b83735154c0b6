package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pando/internal/trace"
)

// Look is the state of the site at one moment.
type Look struct {
	Nodes      map[Standing]int    // adopted nodes
	Discovered int                 // machines that wait to be adopted
	Stages     map[trace.Stage]int // adopted nodes that boot or hang in a stage
	Drift      map[string]int      // nodes whose next boot gets another version, by group
	Silent     map[string]int      // booted nodes that were not seen for a while, by group
	Degraded   map[string]int      // booted nodes with failed units, by group
	Rejected   int64               // objects with wrong bytes that nodes rejected in their latest boots
	Rollouts   map[string]int      // live rollouts by state

	Leases map[string]int // by state: active, expired, bad
	Range  int            // number of addresses that DHCP can give

	Loading, Waiting, Slots int           // nodes in the admission queue, and its slots
	Expect                  time.Duration // expected wait of the next node in the queue
	Packs                   int           // versions whose boot pack must be checked
	Swarm                   int           // nodes in all swarms

	Counted  bool  // the store was counted since the server started
	Objects  int   // number of objects at the last count
	Bytes    int64 // bytes of these objects
	Free     int64 // free bytes on the disk of the store
	Registry map[string]int64
	Events   int64 // number of events recorded since the registry was made

	Journals Journals
}

// Standing is what an adopted node boots and its state: a trace.State, or "new" if it never booted.
type Standing struct {
	Run
	State string
}

// lookTime limits how long a scrape waits for the registry.
const lookTime = 10 * time.Second

// looker reads the state of the site at each scrape.
type looker struct {
	look func(context.Context) (Look, error)
	log  *slog.Logger
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The metrics of a Look.
var (
	nodesDesc = desc(
		"pando_nodes",
		"Adopted nodes by group, image and version of their latest boot, and state: booting, failed, booted, "+
			"degraded, silent, down, new.",
		append(runNames, "state")...)
	discoveredDesc = desc("pando_nodes_discovered", "Machines that were seen and wait to be adopted.")
	stagesDesc     = desc(
		"pando_nodes_booting",
		"Adopted nodes that are booting or failed, by the furthest stage they reached.",
		"stage",
	)
	driftDesc = desc(
		"pando_nodes_drifted",
		"Booted nodes that run another version than their next boot gets.",
		"group",
	)
	silentDesc   = desc("pando_nodes_silent", "Booted nodes that have not reported for four minutes.", "group")
	degradedDesc = desc("pando_nodes_degraded", "Booted nodes with failed systemd units.", "group")
	rejectedDesc = desc("pando_rejected_objects", "Objects with wrong bytes that nodes refused since they booted.")
	rolloutsDesc = desc("pando_rollouts", "Rollouts that have not ended, by state.", "state")
	leasesDesc   = desc(
		"pando_leases",
		"DHCP leases by state: active, expired, bad (in use by somebody else).",
		"state",
	)
	rangeDesc = desc("pando_lease_range_addresses", "Addresses that this server's DHCP can give out.")
	loadsDesc = desc(
		"pando_kernel_loads",
		"Nodes in the queue for kernel and initramfs, by state: loading, waiting.",
		"state",
	)
	slotsDesc  = desc("pando_kernel_load_slots", "Nodes that may load kernel and initramfs at once.")
	expectDesc = desc(
		"pando_kernel_load_wait_seconds",
		"Time until a node that asks now would load, by the pace of the last ones.",
	)
	packsDesc    = desc("pando_boot_pack_queue_length", "Versions whose boot pack waits to be looked at.")
	swarmDesc    = desc("pando_swarm_nodes", "Nodes that take part in a swarm now.")
	objectsDesc  = desc("pando_store_objects", "Objects in the store, as counted in the last minutes.")
	storeDesc    = desc("pando_store_size_bytes", "Bytes of the store's objects, as counted in the last minutes.")
	freeDesc     = desc("pando_store_free_bytes", "Bytes that are free where the store is.")
	registryDesc = desc("pando_registry_size_bytes", "Bytes of the registry's files.", "file")
	eventsDesc   = desc("pando_registry_events_total", "Events of boots that were recorded.")
	upDesc       = desc("pando_registry_up", "1 if the registry could be read for this answer.")
)

// Describe sends nothing, because the metrics depend on the site.
func (looker) Describe(chan<- *prometheus.Desc) {}

// Collect reads fleet and store for a scrape. If the registry cannot be read, it sends only pando_registry_up 0.
func (l looker) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	k, err := l.look(ctx)
	up := 1.0
	if err != nil {
		l.log.Error("registry cannot be read for the metrics", "err", err)
		up = 0
	}
	gauge, count := telling(prometheus.GaugeValue, out), telling(prometheus.CounterValue, out)
	gauge(upDesc, up)
	if err != nil {
		return
	}
	k.tellNodes(gauge)
	k.tellParts(gauge)
	k.Journals.tell(gauge, count)
	count(eventsDesc, float64(k.Events))
}

// tell is a function that sends one metric.
type tell func(d *prometheus.Desc, v float64, labels ...string)

func (k Look) tellNodes(gauge tell) {
	for s, n := range folded(k.Nodes) {
		gauge(nodesDesc, float64(n), append(s.labels(), s.State)...)
	}
	gauge(discoveredDesc, float64(k.Discovered))
	for _, s := range trace.Stages() {
		gauge(stagesDesc, float64(k.Stages[s]), string(s))
	}
	for d, by := range map[*prometheus.Desc]map[string]int{driftDesc: k.Drift, silentDesc: k.Silent,
		degradedDesc: k.Degraded} {
		for group, n := range largest(by) {
			gauge(d, float64(n), clean(group))
		}
	}
	gauge(rejectedDesc, float64(k.Rejected))
	for state, n := range k.Rollouts {
		gauge(rolloutsDesc, float64(n), state)
	}
}

func (k Look) tellParts(gauge tell) {
	for state, n := range k.Leases {
		gauge(leasesDesc, float64(n), state)
	}
	gauge(rangeDesc, float64(k.Range))
	gauge(loadsDesc, float64(k.Loading), "loading")
	gauge(loadsDesc, float64(k.Waiting), "waiting")
	gauge(slotsDesc, float64(k.Slots))
	gauge(expectDesc, k.Expect.Seconds())
	gauge(packsDesc, float64(k.Packs))
	gauge(swarmDesc, float64(k.Swarm))
	if k.Counted {
		gauge(objectsDesc, float64(k.Objects))
		gauge(storeDesc, float64(k.Bytes))
	}
	gauge(freeDesc, float64(k.Free))
	for file, n := range k.Registry {
		gauge(registryDesc, float64(n), file)
	}
}

// other is the label of whatever has no label of its own.
const other = "other"

// folded limits the number of series: it keeps the standings with the most nodes, and sums up the rest by state.
func folded(nodes map[Standing]int) map[Standing]int {
	if len(nodes) <= maxRuns {
		return nodes
	}
	keys := make([]Standing, 0, len(nodes))
	for s := range nodes {
		keys = append(keys, s)
	}
	slices.SortFunc(keys, func(a, b Standing) int {
		return cmp.Or(
			nodes[b]-nodes[a],
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.State, b.State),
		)
	})
	out := make(map[Standing]int, maxRuns)
	for i, s := range keys {
		n := nodes[s]
		if i >= maxRuns {
			s.Run = Run{other, other, other}
		}
		out[s] += n
	}
	return out
}

// largest limits the series of groups in the same way.
func largest(groups map[string]int) map[string]int {
	if len(groups) <= maxRuns {
		return groups
	}
	keys := make([]string, 0, len(groups))
	for g := range groups {
		keys = append(keys, g)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(groups[b]-groups[a], cmp.Compare(a, b)) })
	out := make(map[string]int, maxRuns)
	for i, g := range keys {
		n := groups[g]
		if i >= maxRuns {
			g = other
		}
		out[g] += n
	}
	return out
}
