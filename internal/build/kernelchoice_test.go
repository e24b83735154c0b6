package build

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/build/recipe"
	"pando/internal/testkit"
)

// TestKernelIsChosen: of several kernels the plain one is used, with a warning that names the others. A flag or the
// recipe can select another one, and a changed copy of the image keeps it.
func TestKernelIsChosen(t *testing.T) {
	const plain, debug, newer = "6.8.5-301.fc40.x86_64", "6.8.5-301.fc40.x86_64+debug", "6.9.1-300.fc40.x86_64"
	tree, data := runnableTree(t), t.TempDir()
	put := func(tree, r string) {
		testkit.Put(t, filepath.Join(tree, "usr/lib/modules", r, "vmlinuz"), testkit.FakeKernel(r))
		testkit.Put(t, filepath.Join(tree, "usr/lib/modules", r, "kernel/fs/erofs/erofs.ko"), []byte("m"))
	}
	put(tree, debug)
	put(tree, plain)
	first := mustBuild(t, testOptions(t, data, tree))
	if first.Manifest.Kernel.Release != plain {
		t.Errorf("kernel %s", first.Manifest.Kernel.Release)
	}
	warned := slices.IndexFunc(first.Provenance.Warnings, func(w string) bool {
		return strings.Contains(w, "nodes boot "+plain) && strings.Contains(w, "--kernel") && strings.Contains(w, debug)
	})
	if warned < 0 {
		t.Errorf("warnings %q", first.Provenance.Warnings)
	}
	opt := testOptions(t, data, tree)
	opt.Kernel = debug
	chosen := mustBuild(t, opt)
	if got := chosen.Manifest.Kernel.Release; got != debug {
		t.Errorf("asked for %s, got %s", debug, got)
	}
	if all := strings.Join(chosen.Provenance.Warnings, "\n"); strings.Contains(all, "--kernel") {
		t.Errorf("warned though it was asked for: %q", all)
	}
	if changed := mustChange(t, data, chosen, "echo x > /etc/new"); changed.Manifest.Kernel.Release != debug {
		t.Errorf("a change took the kernel %s", changed.Manifest.Kernel.Release)
	}
	opt.Kernel = "6.0.0"
	if _, err := Image(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "there are "+plain) {
		t.Errorf("asked for one that is not there: %v", err)
	}
	r, err := recipe.Parse("lab.yaml", []byte("suite: bookworm\nkernel_release: "+debug+"\n"))
	if err != nil || r.KernelRelease != debug {
		t.Fatal(r, err)
	}
	opt.FromDir, opt.Kernel, opt.Recipe = "", "", r
	if b, err := newBuilder(opt); err != nil || b.Kernel != debug {
		t.Errorf("the recipe's kernel: %+v, %v", b.Kernel, err)
	}
	// A change that brings a newer kernel boots it.
	newTree := filepath.Join(tree, "incoming")
	put(newTree, newer)
	opt = testOptions(t, data, tree)
	opt.Kernel = debug
	updated := mustChange(t, data, mustBuild(t, opt), "mv /incoming/usr/lib/modules/"+newer+" /usr/lib/modules/"+newer)
	if got := updated.Manifest.Kernel.Release; got != newer {
		t.Errorf("after an update it boots %s", got)
	}
}
