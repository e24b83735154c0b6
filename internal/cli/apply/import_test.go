package apply

import (
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Importing the same table again with the same --group does not move nodes back that were moved by hand.
func TestGroupIsForNewNodes(t *testing.T) {
	t.Parallel()
	known := []api.Node{
		{Node: fleet.Node{Name: "pc001", State: fleet.Adopted, Group: "room1"}},
		{Node: fleet.Node{Name: "pc002", State: fleet.Adopted, Group: "annex"}},
		{Node: fleet.Node{Name: "pc003", State: fleet.Discovered, Group: "default"}},
	}
	var table []api.NodeDeclare
	for _, name := range []string{"pc001", "pc002", "pc003", "pc004", "pc005"} {
		table = append(table, api.NodeDeclare{NodeCreate: api.NodeCreate{Name: name}, Only: []string{"name"}})
	}
	table[4].Group, table[4].Only = "kiosk", []string{"name", "group"}
	if stay := giveGroup(table, known, "room1"); !slices.Equal(stay, []string{"pc002"}) {
		t.Errorf("told of as staying: %v", stay)
	}
	for i, want := range []string{"", "", "room1", "room1", "kiosk"} {
		if d := table[i]; d.Group != want || slices.Contains(d.Only, "group") != (want != "") {
			t.Errorf("%s: group %q, declared %v, want %q", d.Name, d.Group, d.Only, want)
		}
	}
}
