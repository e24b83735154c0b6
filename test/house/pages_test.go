package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Limits of the length of pages, and of the first page.
const (
	maxPage   = 16 << 10
	maxReadme = 80
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	pageNamed   = regexp.MustCompile(`docs/[a-zA-Z0-9/_-]+\.md`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// pages returns the Markdown files for people, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		out[name] = readPage(t, name)
	}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			out[name] = readPage(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// anchors returns the anchors of a page's headings, as GitHub generates them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range pageHeading.FindAllStringSubmatch(page, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}

// TestLinksOfPages: the targets of links in pages exist: pages, pictures and headings.
func TestLinksOfPages(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("../..", to)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if page, ok := all[to]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s links to %s, a heading that is not there", name, m[1])
			}
		}
	}
}

// TestPagesThatCodeNames: pages that comments and messages name exist.
func TestPagesThatCodeNames(t *testing.T) {
	all := pages(t)
	for _, s := range sources(t) {
		b, err := os.ReadFile(filepath.Join("../..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pageNamed.FindAllString(string(b), -1) {
			if _, ok := all[name]; !ok {
				t.Errorf("%s names %s, which is not there", s.path, name)
			}
		}
	}
}

// TestPagesAreShort: a page can be read in one sitting. Generated pages have no limit.
func TestPagesAreShort(t *testing.T) {
	for name, text := range pages(t) {
		written := name == "docs/cli.md" || strings.HasPrefix(name, "docs/benchmarks")
		if len(text) > maxPage && !written {
			t.Errorf("%s has %d bytes, at most %d are read", name, len(text), maxPage)
		}
	}
	if n := strings.Count(readPage(t, "README.md"), "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, and is to have %d at most", n, maxReadme)
	}
}
