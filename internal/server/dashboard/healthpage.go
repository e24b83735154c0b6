package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// healthView is the content of the health page: what is wrong, and what to do.
type healthView struct {
	Status  api.Status
	Uptime  time.Duration
	Finds   []finding
	Logs    string     // description of the kept journals
	Failed  []api.Boot // latest boots with a fault
	Others  int        // number of such boots that are not listed
	Nodes   []nodeTrouble
	Missing int // number of nodes with problems that are not listed
}

// finding is a problem of the site, or a note about it.
type finding struct {
	Grave bool
	Text  string
	Do    string
}

// nodeTrouble is a problem of a node.
type nodeTrouble struct {
	Node, Text, Do string
	Mood           mood
}

// mostTroubled is how many node problems are listed.
const mostTroubled = 100

func (d *Dashboard) healthPage(r *http.Request) (view, error) {
	ctx := r.Context()
	status, err := d.API.Status(ctx)
	if err != nil {
		return view{}, err
	}
	nodes, err := d.API.Nodes(ctx, "")
	if err != nil {
		return view{}, err
	}
	v := healthView{
		Status: status,
		Uptime: status.Time.Sub(status.Started),
		Finds:  append(findings(status), logFindings(status)...),
		Logs:   logsText(status.Logs, status.Time),
	}
	if v.Failed, v.Others, err = d.faults(ctx, "", mostTroubled); err != nil {
		return view{}, err
	}
	for _, n := range nodes {
		for _, t := range troubles(n) {
			if len(v.Nodes) == mostTroubled {
				v.Missing++
				continue
			}
			v.Nodes = append(v.Nodes, t)
		}
	}
	return view{template: "health.html", title: "Health", live: "tick=1", data: v}, nil
}

// sentence turns a text of the command line into a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// findings returns the problems of the site as a whole.
func findings(s api.Status) []finding {
	var out []finding
	if s.Disk != nil {
		out = append(out, finding{true, sentence(s.Disk.Text()), sentence(s.Disk.Do)})
	}
	if text := s.DHCP.Stopped(); text != "" {
		out = append(out, finding{true, sentence(text), sentence(api.StoppedHint)})
	} else if s.DHCP.Mode == "proxy" && len(s.DHCP.Others) == 0 {
		out = append(out, finding{false, "No DHCP server was seen beside this proxy.", "Nodes need an address " +
			"from somewhere: look with pando doctor."})
	}
	if s.DHCP.Addresses.Short() {
		out = append(out, finding{true, sentence(s.DHCP.Addresses.Text()), "Give a larger --range, or see who has " +
			"them: pando lease list."})
	}
	for _, g := range s.Groups {
		if g.Nodes > 0 && g.Image == "" {
			out = append(
				out,
				finding{
					true,
					fmt.Sprintf("Group %s has %s and no image: they cannot boot.", g.Name, plural(g.Nodes, "node")),
					"pando group set " + g.Name + " --image NAME",
				},
			)
		} else if g.Nodes > 0 && g.Desired == "" {
			out = append(out, finding{true, fmt.Sprintf("Group %s wants %s, which does not "+
				"exist.", g.Name, g.Image), "pando image list shows what there is."})
		}
	}
	if n := s.Nodes[string(fleet.Discovered)]; n > 0 {
		out = append(
			out,
			finding{
				false,
				"Waiting to be adopted: " + plural(n, "machine") + ".",
				"Adopt them on their pages, or with pando node adopt @discovered.",
			},
		)
	}
	if n := s.Nodes["drift"]; n > 0 {
		out = append(
			out,
			finding{
				false,
				"Running another version than after a reboot: " + plural(n, "node") + ".",
				"Reboot them when it suits.",
			},
		)
	}
	if s.Loads.Waiting > 0 {
		out = append(
			out,
			finding{false, fmt.Sprintf(
				"Waiting for a turn to load kernel and initramfs: %s, the last for %s.",
				plural(
					s.Loads.Waiting,
					"node",
				),
				span(s.Loads.Expect),
			), "Nothing: they see their place on their screens."},
		)
	}
	return out
}

// troubles returns the problems of a node besides those of its latest boot.
func troubles(n api.Node) []nodeTrouble {
	t := newTile(n)
	var out []nodeTrouble
	if t.mood() == silent {
		out = append(
			out,
			nodeTrouble{
				n.Name,
				"not seen since " + clock(t.seen),
				"Is it on? Look at its screen and its cable; a reboot cures most.",
				silent,
			},
		)
	}
	if s := n.Status; s != nil {
		if s.Rejected > 0 {
			out = append(
				out,
				nodeTrouble{
					n.Name,
					fmt.Sprintf("refused wrong bytes %d times", s.Rejected),
					"Some source sends damaged data: pando store check, then look at its peers.",
					silent,
				},
			)
		}
		if s.Fullness() > fleet.Roomy {
			full := max(float64(s.UpperUsed)/float64(s.UpperTotal), float64(s.FilesUsed)/max(float64(s.FilesTotal), 1))
			out = append(out, nodeTrouble{n.Name, "the write layer is " + share(full) + " full",
				"pando group set " + n.Group + " --write-limit gives it more; a reboot empties it.", silent})
		}
	}
	return out
}

func (d *Dashboard) nothingHere(r *http.Request) (view, error) {
	return view{}, api.NewError(api.NotFound, "There is no page "+r.URL.Path+".", "The menu lists all pages.")
}
