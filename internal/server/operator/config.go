package operator

import (
	"fmt"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/configfile"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// configAPI shows and changes config files, and shows which ones nodes get.
type configAPI struct {
	reg      *registry.Registry
	renderer *nodeconfig.Renderer
	now      func() time.Time
}

func (a *configAPI) listConfig(r *http.Request) (any, error) {
	out := api.ConfigList{Files: []api.ConfigFile{}}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		all, err := tx.ConfigFiles()
		if err != nil {
			return err
		}
		getters, err := configGetters(tx, all)
		for _, f := range all {
			v := api.ConfigFile{ConfigFile: f, Size: len(f.Content), Nodes: getters[configKey{f.For, f.Path}]}
			v.Content = nil
			out.Files = append(out.Files, v)
		}
		return err
	})
	return out, err
}

// configKey identifies a declared config file.
type configKey struct {
	of   fleet.Scope
	path string
}

// configGetters returns the names of the adopted nodes that get each config file.
func configGetters(tx *registry.Tx, all []fleet.ConfigFile) (map[configKey][]string, error) {
	out := map[configKey][]string{}
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	hardware, err := tx.Hardware()
	if err != nil {
		return nil, err
	}
	classes, err := tx.Classes()
	for _, n := range nodes {
		if n.State != fleet.Adopted {
			continue
		}
		for _, f := range fleet.ConfigFilesOf(n, fleet.ClassesOf(hardware[n.Name], classes), all) {
			k := configKey{f.For, f.Path}
			out[k] = append(out[k], n.Name)
		}
	}
	for _, f := range all {
		if k := (configKey{f.For, f.Path}); out[k] == nil {
			out[k] = []string{}
		}
	}
	return out, err
}

func (a *configAPI) showConfig(r *http.Request) (any, error) {
	of, err := fleet.ParseScope(r.URL.Query().Get("for"))
	if err != nil {
		return nil, httpapi.Invalid(err)
	}
	var out api.ConfigFile
	err = a.reg.View(r.Context(), func(tx *registry.Tx) error {
		f, err := tx.ConfigFile(of, r.URL.Query().Get("path"))
		if err != nil {
			return err
		}
		all, err := tx.ConfigFiles()
		if err != nil {
			return err
		}
		getters, err := configGetters(tx, all)
		out = api.ConfigFile{ConfigFile: f, Size: len(f.Content), Nodes: getters[configKey{f.For, f.Path}]}
		return err
	})
	return out, err
}

// maxConfigBody limits the request body that sets a config file: the content is in base64.
const maxConfigBody = fleet.MaxConfigFile*4/3 + 64<<10

func (a *configAPI) setConfig(r *http.Request) (any, error) {
	req, err := httpapi.DecodeJSON[api.ConfigSet](nil, r, maxConfigBody, true)
	if err != nil {
		return nil, err
	}
	f := req.ConfigFile
	if err := httpapi.Invalid(configfile.Check(f)); err != nil {
		return nil, err
	}
	out := api.ConfigChange{DryRun: req.DryRun}
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		was, err := tx.ConfigFile(f.For, f.Path)
		if err != nil && !fleetview.Absent(err) {
			return err
		}
		if out.Fields = configDiff(was, f); len(out.Fields) == 0 {
			out.Nodes = []string{}
			return nil
		}
		f.Changed = a.now().UTC()
		if err := tx.PutConfigFile(f); err != nil {
			return err
		}
		if out.Nodes, out.Problems, err = a.tryConfig(tx, f); err != nil {
			return err
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	return out, err
}

// tryConfig renders a file for all nodes that get it. It returns these nodes, and each mistake once with the nodes that
// have it.
func (a *configAPI) tryConfig(tx *registry.Tx, f fleet.ConfigFile) (nodes, problems []string, err error) {
	all, err := tx.ConfigFiles()
	if err != nil {
		return nil, nil, err
	}
	getters, err := configGetters(tx, all)
	if err != nil {
		return nil, nil, err
	}
	hardware, err := tx.Hardware()
	if err != nil {
		return nil, nil, err
	}
	boots, err := tx.LatestBoots()
	if err != nil {
		return nil, nil, err
	}
	nodes = getters[configKey{f.For, f.Path}]
	var mistakes []string
	have := map[string][]string{} // nodes of each mistake
	for _, name := range nodes {
		n := nodeconfig.Node{Boot: boots[name]}
		if n.Node, err = tx.Node(name); err != nil {
			return nil, nil, err
		}
		if err := n.Of(tx, hardware[name], all); err != nil {
			return nil, nil, err
		}
		if _, err := configfile.Render(f, a.renderer.Data(n), masked); err != nil {
			if have[err.Error()] == nil {
				mistakes = append(mistakes, err.Error())
			}
			have[err.Error()] = append(have[err.Error()], name)
		}
	}
	for _, mistake := range mistakes {
		who := "node " + have[mistake][0] + " boots"
		if n := len(have[mistake]); n > 1 {
			who = fmt.Sprintf("%d nodes (%s) boot", n, fleet.Fold(have[mistake]))
		}
		problems = append(problems, who+" without "+mistake)
	}
	return nodes, problems, nil
}

// masked returns the text that replaces a secret where people read a config file.
func masked(name string) (string, error) { return "<secret " + name + ">", nil }

func configDiff(was, is fleet.ConfigFile) []string {
	d := diff{}
	switch {
	case was.Path == "":
		d.add("content", "", fmt.Sprintf("%d bytes", len(is.Content)))
	case string(was.Content) != string(is.Content):
		d.add("content", fmt.Sprintf("%d bytes", len(was.Content)), fmt.Sprintf("%d other bytes", len(is.Content)))
	}
	d.add("verbatim", fmt.Sprint(was.Verbatim), fmt.Sprint(is.Verbatim))
	d.add("mode", modeText(was.Mode), modeText(is.Mode))
	d.add("owner", was.Owner, is.Owner)
	d.add("run", was.Run, is.Run)
	return d
}

func modeText(m uint32) string {
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", m)
}

func (a *configAPI) deleteConfig(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.ConfigDelete](r)
	if err != nil {
		return nil, err
	}
	out := api.ConfigChange{DryRun: req.DryRun, Fields: []string{"deleted"}}
	err = a.reg.Update(r.Context(), func(tx *registry.Tx) error {
		all, err := tx.ConfigFiles()
		if err != nil {
			return err
		}
		getters, err := configGetters(tx, all)
		if err != nil {
			return err
		}
		if err := tx.DeleteConfigFile(req.For, req.Path); err != nil {
			return err
		}
		out.Nodes = getters[configKey{req.For, req.Path}]
		return fleetview.OrDryRun(req.DryRun)
	})
	return out, err
}

// nodeConfig answers GET /v1/nodes/{name}/config.
func (a *configAPI) nodeConfig(r *http.Request) (any, error) {
	var n nodeconfig.Node
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		node, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err != nil {
			return err
		}
		b, err := fleetview.LatestBoot(tx, node)
		if err != nil {
			return err
		}
		n, err = nodeconfig.Read(tx, node, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	set := a.renderer.Render(n, masked)
	out := api.NodeConfig{Node: n.Node.Name, Problems: set.Problems, Files: make([]api.RenderedFile, len(set.Files))}
	for i, f := range set.Files {
		v := api.RenderedFile{
			Path:    f.Path,
			From:    set.From[f.Path],
			Mode:    f.Mode,
			Owner:   f.Owner,
			Run:     f.Run,
			Secrets: f.Secrets,
			Content: f.Data,
		}
		if v.From == "" {
			v.From = "every node"
			if f.Path == configfile.HostKeyPath {
				v.Secrets, v.Content = []string{nodeconfig.HostKeyName}, []byte("<secret "+nodeconfig.HostKeyName+">\n")
			}
		}
		out.Files[i] = v
	}
	return out, nil
}
