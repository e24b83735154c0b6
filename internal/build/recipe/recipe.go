package recipe

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
	"pando/internal/image"
)

// Recipe describes the content of a tree. docs/formats/recipe.md specifies its YAML form.
type Recipe struct {
	Name string `yaml:"-"` // name as given: "debian:bookworm", "lab.yaml"
	Text string `yaml:"-"` // its bytes, for the provenance

	// From is the built-in recipe or image version that this recipe adds to, or "".
	From         string   `yaml:"from"`
	Suite        string   `yaml:"suite"`        // Debian release: "bookworm"
	Architecture string   `yaml:"architecture"` // "amd64", "arm64"; "": the requested one, else this machine's
	Components   []string `yaml:"components"`   // components of the archive; none: main
	Mirrors      []string `yaml:"mirrors"`      // addresses or sources.list lines; none: Debian's own
	Packages     []string `yaml:"packages"`     // "{architecture}" stands for the architecture
	Files        []File   `yaml:"files"`        // written after the packages are installed
	Customize    []string `yaml:"customize"`    // shell commands run in the tree, after the files
	CommandLine  []string `yaml:"command_line"` // kernel arguments

	// Fields that older recipes lack are omitted from JSON if empty, so that the keys of older recipes stay the same.
	Repositories []Repository `yaml:"repositories" json:",omitempty"` // besides the archive
	Kernel       string       `yaml:"kernel" json:",omitempty"`       // kernel package, replacing that of From
	// KernelRelease selects a release if packages bring several kernels. It does not change the tree.
	KernelRelease string `yaml:"kernel_release" json:"-"`

	// Drivers are modules of network adapters that nodes get besides the usual ones. They do not change the tree.
	Drivers []string `yaml:"drivers" json:",omitempty"`

	Locale   string `yaml:"locale" json:",omitempty"`   // "de_DE.UTF-8"
	Timezone string `yaml:"timezone" json:",omitempty"` // "Europe/Berlin"
	Users    []User `yaml:"users" json:",omitempty"`
	Units    Units  `yaml:"units" json:",omitzero"`

	// Base is the image version in From, unless From is a built-in recipe. A build requires its digest.
	Base fleet.Ref `yaml:"-" json:",omitempty"`
}

// File is a file that a recipe puts into the tree.
type File struct {
	Path    string `yaml:"path"`    // absolute
	Content string `yaml:"content"` // its text
	Mode    string `yaml:"mode"`    // permission bits in octal; "": 0644
}

// Error is a fault in a recipe, with its position.
type Error struct {
	Name string
	Line int // 0: unknown
	Text string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("recipe %s: line %d: %s", e.Name, e.Line, e.Text)
	}
	return fmt.Sprintf("recipe %s: %s", e.Name, e.Text)
}

//go:embed recipes/*.yaml
var builtin embed.FS

// Builtins lists the built-in recipes, such as "debian:bookworm". Their file names have "_" instead of the colon.
func Builtins() []string {
	files, err := builtin.ReadDir("recipes")
	if err != nil {
		panic(err) // the directory is embedded
	}
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = strings.Replace(strings.TrimSuffix(f.Name(), ".yaml"), "_", ":", 1)
	}
	return out
}

// Load reads a built-in recipe by its name, or a file.
func Load(name string) (*Recipe, error) { return LoadFor(name, "") }

// LoadFor is Load for an architecture. "" means the recipe's own, or else this machine's.
func LoadFor(name, architecture string) (*Recipe, error) {
	if slices.Contains(Builtins(), name) {
		return builtinRecipe(name, architecture)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recipe %s: there is no such file, and the built-in recipes are %s",
			name, strings.Join(Builtins(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	return parseRecipe(name, text, architecture)
}

func builtinRecipe(name, architecture string) (*Recipe, error) {
	text, err := builtin.ReadFile("recipes/" + strings.Replace(name, ":", "_", 1) + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	return parseRecipe(name, text, architecture)
}

// Parse parses a recipe. An unknown key is an error with its line and the most similar key.
func Parse(name string, text []byte) (*Recipe, error) { return parseRecipe(name, text, "") }

func parseRecipe(name string, text []byte, architecture string) (*Recipe, error) {
	r := &Recipe{Name: name, Text: string(text)}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, &Error{Name: name, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if doc.Kind == 0 {
		return nil, &Error{Name: name, Text: "it is empty; the shortest one is `from: debian:bookworm`"}
	}
	if err := checkKeys(name, doc.Content[0], recipeKeys); err != nil {
		return nil, err
	}
	if err := doc.Decode(r); err != nil {
		return nil, &Error{Name: name, Text: typeError(err)}
	}
	if err := r.choose(architecture); err != nil {
		return nil, err
	}
	if err := r.inherit(); err != nil {
		return nil, err
	}
	return r, r.validate()
}

// typeError removes the Go type from a decoding error.
func typeError(err error) string {
	var t *yaml.TypeError
	if !errors.As(err, &t) || len(t.Errors) == 0 {
		return err.Error()
	}
	text, _, _ := strings.Cut(t.Errors[0], " into ")
	return strings.Replace(text, "cannot unmarshal !!", "the value has the wrong kind: ", 1)
}

// inherit merges the built-in recipe in From into the recipe.
func (r *Recipe) inherit() error {
	if r.From == "" {
		return nil
	}
	if !slices.Contains(Builtins(), r.From) {
		if _, _, _, err := fleet.Ref(r.From).Split(); err != nil {
			return r.fail("from: %q is neither an image nor one of %s", r.From, strings.Join(Builtins(), ", "))
		}
		r.Base = fleet.Ref(r.From)
		return nil
	}
	base, err := builtinRecipe(r.From, r.Architecture)
	if err != nil {
		return err
	}
	if r.Suite == "" {
		r.Suite = base.Suite
	}
	r.Packages = append(slices.Clone(base.Packages), r.Packages...)
	r.Files = append(slices.Clone(base.Files), r.Files...)
	r.Customize = append(slices.Clone(base.Customize), r.Customize...)
	r.CommandLine = append(slices.Clone(base.CommandLine), r.CommandLine...)
	r.Drivers = append(slices.Clone(base.Drivers), r.Drivers...)
	return nil
}

var (
	recipeWord    = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*$`)
	packageWord   = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*(:[a-z0-9]+)?([=/][A-Za-z0-9.+:~-]+)?$`)
	recipePath    = regexp.MustCompile(`^(/[A-Za-z0-9._@:+-]+)+$`)
	recipeMode    = regexp.MustCompile(`^0?[0-7]{3,4}$`)
	architectures = []string{"amd64", "arm64"}
)

// choose sets the architecture of the recipe, before its packages are expanded. A recipe that names none
// can be built for any.
func (r *Recipe) choose(asked string) error {
	if r.Architecture == "" {
		r.Architecture = cmp.Or(asked, runtime.GOARCH)
	}
	if !slices.Contains(architectures, r.Architecture) {
		return r.fail("architecture: %q, want %s", r.Architecture, strings.Join(architectures, " or "))
	}
	if asked != "" && asked != r.Architecture {
		return r.fail(
			"architecture: the recipe says %s, and %s is asked for: leave the key out of a recipe that serves both",
			r.Architecture,
			asked,
		)
	}
	return nil
}

func (r *Recipe) validate() error {
	if r.Base != "" {
		if r.Suite != "" || len(r.Components) > 0 || len(r.Mirrors) > 0 {
			return r.fail("from: %s is an image, which has its suite, components and mirrors; leave them out", r.Base)
		}
	} else if !recipeWord.MatchString(r.Suite) {
		return r.fail("suite: %q; want a Debian release such as bookworm, or `from: debian:bookworm`", r.Suite)
	}
	if err := r.validateMore(); err != nil {
		return err
	}
	for i, p := range r.Packages {
		r.Packages[i] = strings.ReplaceAll(p, "{architecture}", r.Architecture)
		if !packageWord.MatchString(r.Packages[i]) {
			return r.fail("packages: %q is not the name of a package", p)
		}
	}
	for _, c := range r.Components {
		if !recipeWord.MatchString(c) {
			return r.fail("components: %q is not a component such as main or non-free-firmware", c)
		}
	}
	for _, f := range r.Files {
		if !recipePath.MatchString(f.Path) || path.Clean(f.Path) != f.Path {
			return r.fail("files: path %q: want an absolute path of letters, digits and . _ @ : + -", f.Path)
		}
		if f.Mode != "" && !recipeMode.MatchString(f.Mode) {
			return r.fail("files: %s: mode %q: want octal digits such as 0644", f.Path, f.Mode)
		}
	}
	for _, arg := range r.CommandLine {
		if err := image.ValidArgument(arg); err != nil {
			return r.fail("command_line: %v", err)
		}
	}
	for _, d := range r.Drivers {
		if !image.IsModule(d) {
			return r.fail("drivers: %q is not a module's name, such as cxgb4", d)
		}
	}
	for _, m := range r.Mirrors {
		if strings.TrimSpace(m) == "" || strings.HasPrefix(m, "-") || strings.ContainsAny(m, "\n\x00") {
			return r.fail("mirrors: %q is not an address or a line of sources.list", m)
		}
	}
	return nil
}

func (r *Recipe) fail(format string, args ...any) error {
	return &Error{Name: r.Name, Text: fmt.Sprintf(format, args...)}
}

// Key identifies the tree that the recipe makes: it is the same for two recipes that make the same tree.
func (r *Recipe) Key() string {
	what := *r
	what.Name, what.Text, what.From, what.CommandLine, what.Drivers = "", "", "", nil, nil
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// PublicText returns the text without password hashes, for the provenance, which everybody can read. It returns a
// remark instead of the text if a hash stays because YAML wrote it in another way.
func (r *Recipe) PublicText() string {
	text := r.Text
	for _, u := range r.Users {
		if u.PasswordHash != "" {
			text = strings.ReplaceAll(text, u.PasswordHash, "(left out)")
		}
	}
	var left Recipe
	if err := yaml.Unmarshal([]byte(text), &left); err != nil ||
		slices.ContainsFunc(left.Users, func(u User) bool { return hashWord.MatchString(u.PasswordHash) }) {
		return "# left out: it has the hash of a password\n"
	}
	return text
}
