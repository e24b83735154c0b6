package s3

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

// Config says which bucket. Secrets are not in it: they come from the environment or the files that other programs use.
type Config struct {
	URL      string `json:"url"`                // s3://bucket or s3://bucket/prefix
	Endpoint string `json:"endpoint,omitempty"` // base URL of the service; "": of Amazon
	Region   string `json:"region,omitempty"`
	Cache    int64  `json:"cache,omitempty"` // most bytes of objects kept on this machine; 0: DefaultCache

	// How nodes get objects: "off": from the server; "public": from the bucket, which anybody may read; "signed":
	// from the bucket by URLs that the server signs.
	Direct string `json:"direct,omitempty"`
	// base URL of the service as nodes reach it, by IP address; "": Endpoint
	NodeEndpoint string `json:"node_endpoint,omitempty"`
}

// DefaultCache is how many bytes of objects a server keeps beside itself.
const DefaultCache = 20e9

// The ways of Config.Direct.
const (
	Off    = "off"
	Public = "public"
	Signed = "signed"
)

// FromEnvironment fills in what was left out from the variables that other S3 clients read.
func (c Config) FromEnvironment() Config {
	c.Endpoint = cmp.Or(c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	c.Region = cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	c.Cache = cmp.Or(c.Cache, DefaultCache)
	c.Direct = cmp.Or(c.Direct, Off)
	return c
}

// Split returns the bucket and the prefix, which is "" or ends with a slash.
func (c Config) Split() (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(c.URL, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", "", fmt.Errorf("store %q is not s3://BUCKET or s3://BUCKET/PREFIX", c.URL)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if strings.Contains("/"+prefix, "/./") || strings.Contains("/"+prefix, "/../") || strings.Contains(prefix, "//") {
		return "", "", fmt.Errorf("store %q: empty parts, . and .. are no prefix", c.URL)
	}
	return bucket, prefix, nil
}

// Validate reports what is wrong.
func (c Config) Validate() error {
	if _, _, err := c.Split(); err != nil {
		return err
	}
	for _, e := range []string{c.Endpoint, c.NodeEndpoint} {
		if _, err := endpoint(e); err != nil {
			return err
		}
	}
	switch c.Direct {
	case "", Off, Public, Signed:
		return nil
	}
	return fmt.Errorf("nodes read the bucket %q: say %s, %s or %s", c.Direct, Off, Public, Signed)
}

// endpoint reads the base URL of a service.
func endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(cmp.Or(text, "https://s3.amazonaws.com"))
	if err == nil &&
		(u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
			u.RawQuery != "") {
		err = errors.New("not of the form http://HOST:PORT or https://HOST:PORT")
	}
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", text, err)
	}
	return u, nil
}

// Load reads a Config that Save wrote. The error is fs.ErrNotExist when there is none.
func Load(path string) (c Config, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return c, fmt.Errorf("bucket of the store: %s: %w", path, err)
	}
	return c, nil
}
