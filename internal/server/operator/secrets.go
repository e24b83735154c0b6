package operator

import (
	"fmt"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// secretAPI shows and changes secrets, and approves boots that request theirs.
type secretAPI struct {
	reg      *registry.Registry
	renderer *nodeconfig.Renderer
	now      func() time.Time
}

func (a *secretAPI) listSecrets(r *http.Request) (any, error) {
	out := api.SecretList{Secrets: []fleet.Secret{}}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		all, err := tx.Secrets()
		for _, s := range all {
			out.Secrets = append(out.Secrets, s.Secret)
		}
		return err
	})
	return out, err
}

// maxSecretBody limits the request body that sets a secret: the value is in base64.
const maxSecretBody = fleet.MaxSecret*4/3 + 64<<10

func (a *secretAPI) setSecret(r *http.Request) (any, error) {
	req, err := httpapi.DecodeJSON[api.SecretSet](nil, r, maxSecretBody, true)
	if err != nil {
		return nil, err
	}
	if len(req.Value) > fleet.MaxSecret {
		return nil, httpapi.BadRequest(
			fmt.Sprintf("secret %s has %d bytes: at most %d are allowed", req.Name, len(req.Value), fleet.MaxSecret),
			"",
		)
	}
	var out fleet.Secret
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		s, err := tx.Secret(req.Name)
		if err != nil && !fleetview.Absent(err) {
			return err
		}
		if fleetview.Absent(err) && req.Value == nil {
			return httpapi.BadRequest("secret "+req.Name+" has no value yet", "give one with --from FILE, or - "+
				"for standard input")
		}
		s.Name, s.Changed = req.Name, a.now().UTC()
		if req.For != nil {
			s.For = *req.For
		}
		if err := httpapi.Invalid(s.Validate()); err != nil {
			return err
		}
		if req.Value != nil {
			s.Sealed = a.renderer.Keys.Seal(nodeconfig.SealedAs(s.Name), req.Value)
		}
		out = s.Secret
		return tx.PutSecret(s)
	})
	return out, err
}

func (a *secretAPI) deleteSecret(r *http.Request) (any, error) {
	return nil, a.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteSecret(r.PathValue("name")) })
}

// approveNodes answers POST /v1/nodes/approve: it lets the latest boots of nodes have their secrets.
func (a *secretAPI) approveNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeSelection](r)
	if err != nil {
		return nil, err
	}
	out := api.Changes{DryRun: req.DryRun, Nodes: []api.Change{}}
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		nodes, err := fleetview.SelectNodes(tx, req.Select, false)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			fields, err := a.approve(tx, n)
			if err != nil {
				return about("node", n.Name, err)
			}
			out.Nodes = append(out.Nodes, api.Change{Node: n.Name, Fields: fields})
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	return out, err
}

// approve approves the latest boot of a node. With the policy tpm it also approves the key that the boot proved, for
// all later boots.
func (a *secretAPI) approve(tx *registry.Tx, n fleet.Node) ([]string, error) {
	b, err := fleetview.LatestBoot(tx, n)
	if err != nil {
		return nil, err
	}
	c, err := nodeconfig.Read(tx, n, b)
	if err != nil || c.Claim().Withheld() == "" {
		return []string{}, err
	}
	if b.ID == "" {
		return nil, api.NewError(
			api.Conflict,
			"it has not booted yet: there is nothing to approve",
			"switch it on first",
		)
	}
	switch fleet.ValueOf(c.Group.Secrets).Kind() {
	case fleet.SecretsMAC:
		n.Claimed = nil
		return []string{"the machine with MAC " + b.MAC.String() + ": approved"}, tx.PutNode(n.Name, n)
	case fleet.SecretsApprove:
		return []string{"boot " + string(b.ID) + ": approved"}, tx.ApproveBoot(b.ID, a.now())
	}
	switch {
	case b.Proof == "":
		return nil, api.NewError(api.Conflict, "its latest boot has proved no key of a TPM",
			"it needs a TPM 2.0 that is switched on in its firmware; reboot it, and look at its console")
	case n.TPMKey != "":
		return nil, api.NewError(
			api.Conflict,
			"another key was approved: this is another machine, or its TPM was cleared",
			"if it is the right machine: pando node identity reset "+n.Name,
		)
	}
	n.TPMKey = b.Proof
	return []string{"TPM key: none -> " + api.KeyPrint(b.Proof)}, tx.PutNode(n.Name, n)
}
