package operator

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// exporterPort is where Prometheus' node exporter listens.
const exporterPort = 9100

// Targets answers Prometheus' service discovery.
type Targets struct {
	Registry *registry.Registry
	Views    fleetview.Nodes
}

// List answers GET /v1/sd: the fleet's booted nodes in the format of Prometheus' HTTP service discovery.
func (t Targets) List(r *http.Request) (any, error) {
	at, err := httpapi.QueryInt(r, "port", exporterPort)
	if err != nil {
		return nil, err
	}
	if at < 1 || at > 65535 {
		return nil, httpapi.BadRequest("port "+strconv.FormatInt(at, 10)+" is not a port number", "")
	}
	out := []api.ScrapeTarget{}
	err = t.Registry.View(r.Context(), func(tx *registry.Tx) error {
		nodes, err := fleetview.SelectNodes(tx, r.URL.Query().Get("select"), true)
		if err != nil {
			return err
		}
		boots, err := tx.LatestBoots()
		if err != nil {
			return err
		}
		views, err := t.Views.Views(r.Context(), tx, nodes)
		for _, n := range views {
			b := boots[n.Name]
			if n.Node.State != fleet.Adopted || n.Boot == nil || !n.Boot.State.Reached() || !b.Addr.IsValid() {
				continue
			}
			out = append(out, scrapeTarget(n, b, net.JoinHostPort(b.Addr.String(), strconv.FormatInt(at, 10))))
		}
		return err
	})
	return out, err
}

// scrapeTarget returns the target of a node. Prometheus drops labels that begin with two underscores after relabelling.
func scrapeTarget(n api.Node, b registry.Boot, target string) api.ScrapeTarget {
	image, _, _, _ := b.Image.Split() // a boot whose image name is not valid never booted
	labels := map[string]string{
		"node":                 n.Name,
		"group":                n.Group,
		"version":              b.Version.Short(),
		"rack":                 n.Labels[fleet.LabelRack],
		"__meta_pando_image":   image,
		"__meta_pando_version": string(n.Running),
		"__meta_pando_mac":     b.MAC.String(),
		"__meta_pando_boot":    string(b.ID),
		"__meta_pando_classes": "," + strings.Join(n.Classes, ",") + ",",
	}
	for name, value := range n.Labels {
		labels["__meta_pando_label_"+labelName(name)] = value
	}
	for name, value := range labels {
		if value == "" {
			delete(labels, name)
		}
	}
	return api.ScrapeTarget{Targets: []string{target}, Labels: labels}
}

// labelName converts a label's name to one that Prometheus accepts: letters, digits and underscores.
func labelName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}
