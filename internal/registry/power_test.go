package registry

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pando/internal/fleet"
)

// testPower: passwords and power orders follow a renamed node, and a later node with the old name does not get them.
func testPower(t *testing.T, r *Registry) {
	at := time.Date(2026, 11, 22, 7, 45, 0, 0, time.UTC)
	must(t, r, func(tx *Tx) error {
		return errors.Join(
			tx.CreateNode(aNode("pc001", 1)),
			tx.CreateGroup(fleet.Group{Name: "lab"}),
			tx.PutPowerPassword(
				PowerOfNode,
				"pc001",
				[]byte{1, 2},
			),
			tx.PutPowerPassword(PowerOfGroup, "lab", []byte{3}),
			tx.PutPowerWish(fleet.PowerWish{Node: "pc001", On: true, At: at, Who: "hours"}),
			tx.PutAlive(at),
			tx.PutPowerHours([]fleet.Hours{"08:00-20:00"}, at),
		)
	})
	must(t, r, func(tx *Tx) error {
		n, err := tx.Node("pc001")
		n.Name = "pc002"
		return errors.Join(err, tx.PutNode("pc001", n))
	})
	same(
		t,
		read(t, r, (*Tx).PowerWishes),
		map[string]fleet.PowerWish{"pc002": {Node: "pc002", On: true, At: at, Who: "hours"}},
	)
	same(t, read(t, r, (*Tx).PowerHours), map[fleet.Hours]time.Time{"08:00-20:00": at})
	same(t, read(t, r, (*Tx).Alive), at)
	password := func(of PowerOwner, name string) (sealed []byte, err error) {
		err = r.View(t.Context(), func(tx *Tx) (err error) {
			sealed, err = tx.PowerPassword(of, name)
			return err
		})
		return sealed, err
	}
	if got, err := password(PowerOfNode, "pc002"); err != nil || !bytes.Equal(got, []byte{1, 2}) {
		t.Errorf("after a rename: %v, %v", got, err)
	}
	must(t, r, func(tx *Tx) error {
		return errors.Join(tx.DeleteNode("pc002"), tx.DeleteGroup("lab"), tx.PutPowerHours(nil, at))
	})
	for of, name := range map[PowerOwner]string{PowerOfNode: "pc002", PowerOfGroup: "lab"} {
		if _, err := password(of, name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s %s is gone, and its password: %v", of, name, err)
		}
	}
	same(t, len(read(t, r, (*Tx).PowerWishes))+len(read(t, r, (*Tx).PowerHours)), 0)
}
