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

// Config selects a bucket. It has no secrets: they come from the environment, or from the files of other S3 clients.
type Config struct {
	URL      string `json:"url"`                // s3://bucket or s3://bucket/prefix
	Endpoint string `json:"endpoint,omitempty"` // base URL of the service; "": Amazon
	Region   string `json:"region,omitempty"`
	Cache    int64  `json:"cache,omitempty"` // bytes of objects kept on this machine; 0: DefaultCache

	// Direct says how nodes get objects. "off": from the server; "public": from the bucket, which must be readable by
	// anybody; "signed": from the bucket by URLs that the server signs.
	Direct string `json:"direct,omitempty"`
	// NodeEndpoint is the base URL of the service for nodes, with an IP address. "": Endpoint.
	NodeEndpoint string `json:"node_endpoint,omitempty"`
}

// DefaultCache is the default size of the server's cache, in bytes of objects.
const DefaultCache = 20e9

// Values of Config.Direct.
const (
	Off    = "off"
	Public = "public"
	Signed = "signed"
)

// FromEnvironment sets empty fields from the environment variables that S3 clients use.
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

// Validate returns what is wrong with a Config.
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

// endpoint parses the base URL of a service.
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

// Load reads a Config that Save wrote. The error is fs.ErrNotExist if there is none.
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
