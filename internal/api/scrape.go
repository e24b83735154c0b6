package api

// ScrapeTarget is a node in the format of Prometheus' HTTP service discovery. GET /v1/sd answers a list of these.
type ScrapeTarget struct {
	Targets []string          `json:"targets"` // one address and port
	Labels  map[string]string `json:"labels"`  // node, group, version, rack; and __meta_pando_... for relabelling
}
