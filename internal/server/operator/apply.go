package operator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/registry"
)

// fleetAPI applies and exports declarations of the whole fleet.
type fleetAPI struct {
	reg        *registry.Registry
	extensions extensions
	addresses  addresses
	waker      *nodecommand.Waker
	data       NodeData
	now        func() time.Time
}

// exportFleet answers GET /v1/fleet.
func (f *fleetAPI) exportFleet(r *http.Request) (any, error) {
	var out api.Declaration
	err := f.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		out, err = declared(tx)
		return err
	})
	return out, err
}

// declared returns a declaration of all that the registry holds. Nodes that are not adopted are left out.
func declared(tx *registry.Tx) (out api.Declaration, err error) {
	p, err := tx.Policy()
	if err != nil {
		return out, err
	}
	out.Policy = (*api.Policy)(&p)
	if out.Classes, err = tx.Classes(); err != nil {
		return out, err
	}
	if out.Groups, err = tx.Groups(); err != nil {
		return out, err
	}
	if out.Config, err = tx.ConfigFiles(); err != nil {
		return out, err
	}
	for i := range out.Config {
		out.Config[i].Changed = time.Time{} // the time is no part of a declaration
	}
	secrets, err := tx.Secrets()
	if err != nil {
		return out, err
	}
	for _, s := range secrets {
		out.Secrets = append(out.Secrets, fleet.Secret{Name: s.Name, For: s.For})
	}
	nodes, err := tx.Nodes()
	for _, n := range nodes {
		if n.State == fleet.Adopted && (len(n.MACs) > 0 || n.Serial != "") {
			out.Nodes = append(
				out.Nodes,
				api.NodeDeclare{NodeCreate: api.NodeCreate{Name: n.Name, MACs: n.MACs, Serial: n.Serial, Group: n.Group,
					Labels: n.Labels, Address: addressText(n.Address), Version: n.Version, Follow: n.Follow,
					KernelArgs: n.KernelArgs, Settings: n.Settings}},
			)
		}
	}
	return out, err
}

// maxDeclaration bounds the body of a declaration: 10,000 nodes with labels have about 3 MB.
const maxDeclaration = 32 << 20

// applyFleet answers PUT /v1/fleet.
func (f *fleetAPI) applyFleet(r *http.Request) (any, error) {
	req, err := httpapi.DecodeJSON[api.Apply](nil, r, maxDeclaration, true)
	if err != nil {
		return nil, err
	}
	var out api.Applied
	var follow []string
	at := f.now()
	err = f.reg.Update(r.Context(), func(tx *registry.Tx) error {
		before, err := fleetview.Extensions(tx)
		if err != nil {
			return err
		}
		a := application{extensions: f.extensions, addresses: f.addresses, data: f.data, tx: tx, at: at, req: req,
			steps: []api.ApplyStep{}}
		if err := a.run(); err != nil {
			return err
		}
		if follow, err = fleetview.ExtensionsChanged(tx, before); err != nil {
			return err
		}
		out = api.Applied{DryRun: req.DryRun, Steps: a.steps, Plan: planName(a.steps), Notes: a.notes}
		if req.Plan != "" && req.Plan != out.Plan {
			return api.NewError(
				api.Conflict,
				"the fleet has changed since the plan was made: nothing was done",
				"make the plan again and check it",
			)
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	if err == nil && !req.DryRun {
		for _, s := range out.Steps {
			if s.Kind == "node" && s.Action == api.Deletes {
				f.data.NodeDeleted(r.Context(), s.Name, at)
			}
		}
		f.waker.Named(r.Context(), follow)
	}
	return out, err
}

func planName(steps []api.ApplyStep) string {
	b, err := json.Marshal(steps)
	if err != nil { // strings always encode
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// application changes a fleet to what is declared. Its steps are ordered so that none blocks a later one.
type application struct {
	extensions extensions
	addresses  addresses
	data       NodeData
	tx         *registry.Tx
	at         time.Time
	req        api.Apply
	steps      []api.ApplyStep
	notes      []string
}

func (a *application) note(text string) { a.notes = append(a.notes, text) }

func (a *application) run() error {
	for _, part := range []func() error{a.policy, a.classes, a.groups, a.nodes, a.pruneGroups, a.pruneClasses,
		a.config, a.pruneConfig, a.secrets} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) step(kind, name string, action api.Action, fields []string) {
	a.steps = append(a.steps, api.ApplyStep{Kind: kind, Name: name, Action: action, Fields: fields})
}

// about adds to an error which item of a declaration it is about.
func about(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	e := *httpapi.ErrorOf(err)
	if e.Item = kind + " " + name; !strings.Contains(e.Message, name) {
		e.Message = e.Item + ": " + e.Message
	}
	return &e
}

func (a *application) policy() error {
	if a.req.Policy == nil {
		return nil
	}
	was, err := a.tx.Policy()
	if err != nil {
		return err
	}
	is := registry.Policy{
		Adoption: cmp.Or(a.req.Policy.Adoption, was.Adoption),
		Naming:   cmp.Or(a.req.Policy.Naming, was.Naming),
	}
	if is == was {
		return nil
	}
	d := diff{}
	d.add("adoption", string(was.Adoption), string(is.Adoption))
	d.add("naming", was.Naming, is.Naming)
	a.step("policy", "", api.Alters, d)
	return httpapi.Invalid(a.tx.PutPolicy(is))
}

func (a *application) classes() error {
	for _, c := range a.req.Classes {
		if err := about("class", c.Name, a.class(c)); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) class(is fleet.Class) error {
	if err := httpapi.Invalid(is.Validate()); err != nil {
		return err
	}
	was, err := a.tx.Class(is.Name)
	if fleetview.Absent(err) {
		a.step("class", is.Name, api.Creates, classDiff(fleet.Class{}, is))
		return a.tx.CreateClass(is)
	}
	if err != nil {
		return err
	}
	if fields := classDiff(was, is); len(fields) > 0 {
		a.step("class", is.Name, api.Alters, fields)
		return a.tx.PutClass(is)
	}
	return nil
}

func (a *application) groups() error {
	for _, g := range a.req.Groups {
		if err := about("group", g.Name, a.group(g)); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) group(is fleet.Group) error {
	if err := cmp.Or(httpapi.Invalid(is.Validate()), knownZone(is.Settings)); err != nil {
		return err
	}
	was, err := a.tx.Group(is.Name)
	isNew := fleetview.Absent(err)
	if err != nil && !isNew {
		return err
	}
	var stays string
	if is.Image, is.Follow, stays, err = fleetview.PinDeclared(a.tx, is.Image, is.Follow, was.Image); err != nil {
		return err
	}
	if stays != "" {
		a.note("group " + is.Name + " " + stays + ": pando rollout start @" + is.Name + " brings it")
	}
	fields := groupDiff(was, is)
	if !isNew && len(fields) == 0 {
		return nil
	}
	if err := a.extensions.ofGroup(a.tx, is, fleet.Node{}); err != nil {
		return err
	}
	if isNew {
		a.step("group", is.Name, api.Creates, fields)
		return a.tx.CreateGroup(is)
	}
	a.step("group", is.Name, api.Alters, fields)
	return a.tx.PutGroup(is)
}

// pruneGroups deletes groups that are owned and not declared. They must have no nodes by now.
func (a *application) pruneGroups() error {
	if !a.req.Prune || len(a.req.Owns.Groups) == 0 {
		return nil
	}
	groups, err := a.tx.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		named := slices.ContainsFunc(a.req.Groups, func(d fleet.Group) bool { return d.Name == g.Name })
		if named || g.Name == fleet.DefaultGroup || !owned(a.req.Owns.Groups, g.Name) {
			continue
		}
		a.step("group", g.Name, api.Deletes, nil)
		if err := a.tx.DeleteGroup(g.Name); err != nil {
			return about("group", g.Name, err)
		}
	}
	return nil
}

func (a *application) pruneClasses() error {
	if !a.req.Prune || len(a.req.Owns.Classes) == 0 {
		return nil
	}
	classes, err := a.tx.Classes()
	if err != nil {
		return err
	}
	for _, c := range classes {
		named := slices.ContainsFunc(a.req.Classes, func(d fleet.Class) bool { return d.Name == c.Name })
		if named || !owned(a.req.Owns.Classes, c.Name) {
			continue
		}
		a.step("class", c.Name, api.Deletes, nil)
		if err := a.tx.DeleteClass(c.Name); err != nil {
			return about("class", c.Name, err)
		}
	}
	return nil
}

// owned reports whether a name matches one of the patterns; a star stands for any text.
func owned(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fleet.Like(p, name) })
}

var errNoMachine = errors.New("no MAC address and no serial number: the server could never recognise it")

// fieldsOf returns a function that reports whether a field of a node is declared.
func fieldsOf(d api.NodeDeclare) func(string) bool {
	return func(name string) bool { return len(d.Only) == 0 || slices.Contains(d.Only, name) }
}

// declaredNode returns n with the fields that a declaration sets.
func declaredNode(n fleet.Node, d api.NodeDeclare) (fleet.Node, error) {
	given := fieldsOf(d)
	var err error
	if len(d.MACs) > 0 && given("macs") {
		n.MACs = d.MACs
		n.Learned = slices.DeleteFunc(n.Learned, func(m fleet.MAC) bool { return !slices.Contains(n.MACs, m) })
	}
	if d.Serial != "" && given("serial") {
		n.Serial = d.Serial
	}
	if given("group") {
		n.Group = cmp.Or(d.Group, fleet.DefaultGroup)
	}
	if given("address") {
		if n.Address, err = address(d.Address); err != nil {
			return n, err
		}
	}
	if given(fleet.SettingImage) {
		n.Version, n.Follow = d.Version, d.Follow
	}
	if given(fleet.SettingKernelArgs) {
		n.KernelArgs = d.KernelArgs
	}
	n.Labels = declaredLabels(n.Labels, d)
	for _, name := range fleet.SettingKeys() {
		if given(name) {
			if err := n.Drop(name); err != nil {
				return n, err
			}
		}
	}
	n.Merge(d.Settings)
	n.State = fleet.Adopted
	return n, cmp.Or(httpapi.Invalid(n.Validate()), knownZone(n.Settings))
}

// declaredLabels returns a node's labels after a declaration, which names all labels or single ones.
func declaredLabels(was map[string]string, d api.NodeDeclare) map[string]string {
	if fieldsOf(d)("labels") {
		was = nil
	}
	out := map[string]string{}
	for k, v := range was {
		if !slices.Contains(d.Only, "label:"+k) {
			out[k] = v
		}
	}
	for k, v := range d.Labels {
		out[k] = v
	}
	return out
}

// newNodeFields describes the fields of a new node, for people.
func newNodeFields(n fleet.Node) []string {
	return nodeDiff(fleet.Node{Name: n.Name, State: n.State}, n)
}

func duplicate(name string) error {
	return about("node", name, httpapi.BadRequest(fmt.Sprintf("node %s is declared twice", name), ""))
}
