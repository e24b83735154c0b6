package fleetview

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"strings"
)

// FindNode returns the node with a name or a MAC.
func FindNode(tx *registry.Tx, name string) (fleet.Node, error) {
	if m, err := fleet.ParseMAC(name); err == nil {
		return tx.NodeByMAC(m)
	}
	return tx.Node(name)
}

// SelectNodes returns the nodes of a node set. A name in the set without a node is an error, because a typing error
// must not make a change smaller than intended.
func SelectNodes(tx *registry.Tx, selection string, emptyIsAll bool) ([]fleet.Node, error) {
	nodes, err := tx.Nodes()
	if err != nil || selection == "" && emptyIsAll {
		return nodes, err
	}
	set, err := fleet.ParseSet(selection)
	if err != nil {
		return nil, api.NewError(
			api.BadRequest,
			err.Error(),
			"write it like pc[001-120]!pc007, @group or label=value&@group; , adds, & keeps what both have, ! "+
				"takes away",
		)
	}
	for _, name := range set.Groups() {
		if _, err := tx.Group(name); err != nil {
			return nil, err
		}
	}
	selected, missing := set.Select(nodes)
	if len(missing) > 0 {
		return nil, api.NewError(api.NotFound, "no such node: "+foldMissing(missing), "`pando node list` shows all")
	}
	return selected, nil
}

// foldMissing returns names and MACs in the short form of node sets.
func foldMissing(missing []string) string {
	return strings.ReplaceAll(fleet.Fold(missing), ",", ", ")
}

// CheckRef returns an error if an image reference does not resolve to a version now.
func CheckRef(tx *registry.Tx, ref fleet.Ref) error {
	if ref == "" {
		return nil
	}
	image, _, _, err := ref.Split()
	if err != nil {
		return httpapi.Invalid(err)
	}
	if _, err := tx.Resolve(ref); err != nil {
		return httpapi.WithHint(err, "`pando image list` shows all images, `pando image show "+image+"` its versions")
	}
	return nil
}

// Pin returns the reference to record for a group or node: the version that ref resolves to now, or with follow its
// tag.
func Pin(tx *registry.Tx, ref fleet.Ref, follow bool) (fleet.Ref, error) {
	if err := CheckRef(tx, ref); err != nil || ref == "" {
		return ref, err
	}
	if follow {
		return ref.WithTag(), nil
	}
	d, err := tx.Resolve(ref)
	return ref.At(d), err
}

// PinDeclared is like Pin, for a declaration of a reference that was `was`. A tag that is followed stays followed. A
// group or node that has a version of the image keeps it, so that applying a file again releases no build. stays then
// says so, if the tag names another version now.
func PinDeclared(
	tx *registry.Tx,
	ref fleet.Ref,
	follow bool,
	was fleet.Ref,
) (is fleet.Ref, follows bool, stays string, err error) {
	if ref.IsTag() && ref.WithTag() == was.WithTag() {
		return was, true, "", CheckRef(tx, was)
	}
	if is, err = Pin(tx, ref, follow); err != nil || follow || !ref.IsTag() || was.IsTag() {
		return is, follow, "", err
	}
	has, _, _, err := was.Split()
	if name, _, _, _ := ref.Split(); err != nil || has != name || is == was {
		return is, false, "", nil
	}
	if _, err := tx.Resolve(was); err != nil { // what it had is gone
		return is, false, "", nil
	}
	return was, false, fmt.Sprintf("stays at %s; %s names %s now", was.Short(), ref.WithTag(), is.Short()), nil
}

// VersionParam returns the version that a query parameter names. If the parameter is absent, it uses otherwise.
func VersionParam(
	r *http.Request,
	reg *registry.Registry,
	parameter, otherwise string,
) (ref fleet.Ref, v fleet.Digest, err error) {
	ref = fleet.Ref(cmp.Or(r.URL.Query().Get(parameter), otherwise))
	if _, _, _, err = ref.Split(); err != nil || ref == "" {
		return ref, "", httpapi.BadRequest(
			fmt.Sprintf("parameter %s: %q is no version of an image", parameter, ref),
			"",
		)
	}
	err = reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		if err = CheckRef(tx, ref); err == nil {
			v, err = tx.Resolve(ref)
		}
		return err
	})
	return ref, v, err
}

// OrDryRun returns, for a dry run, the error that rolls back the transaction.
func OrDryRun(dryRun bool) error {
	if dryRun {
		return registry.ErrDryRun
	}
	return nil
}

// LatestBoot returns the latest boot of a node, the zero Boot if there is none.
func LatestBoot(tx *registry.Tx, n fleet.Node) (registry.Boot, error) {
	boots, err := tx.Boots(registry.BootFilter{Node: n.Name, Limit: 1})
	if err != nil || len(boots) == 0 {
		return registry.Boot{}, err
	}
	return boots[0], nil
}

// Followers returns the adopted nodes of a group that have no version of their own.
func Followers(tx *registry.Tx, group string) ([]fleet.Node, error) {
	all, err := tx.Nodes()
	var out []fleet.Node
	for _, n := range all {
		if n.Group == group && n.State == fleet.Adopted && n.Version == "" {
			out = append(out, n)
		}
	}
	return out, err
}

// Absent reports whether err only means that a record does not exist.
func Absent(err error) bool { return errors.Is(err, registry.ErrNotFound) }

// Names returns the names of nodes.
func Names(nodes []fleet.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
