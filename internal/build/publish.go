package build

import (
	"context"
	"os"

	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/systree"
)

// publish is the step that signs and stores the manifest. The version exists only after it, and is complete then.
func (b *builder) publish(context.Context) error {
	if b.base != nil {
		b.manifest.CommandLine = append(b.manifest.CommandLine, b.base.Manifest.CommandLine...)
	}
	if b.Recipe != nil {
		b.manifest.CommandLine = append(b.manifest.CommandLine, b.Recipe.CommandLine...)
	}
	b.manifest.CommandLine = append(b.manifest.CommandLine, b.CommandLine...)
	data, err := b.manifest.Encode()
	if err != nil {
		return err
	}
	b.fillProvenance()
	provenance, err := b.result.Provenance.Encode()
	if err != nil {
		return err
	}
	b.result.Version = image.Version(data)
	before, err := b.Store.GetVersion(b.result.Version)
	b.result.Existed = err == nil
	b.result.Manifest = b.manifest
	b.result.Objects = b.counter.All()
	b.result.NewObjects, b.result.NewBytes = b.counter.New, b.counter.NewBytes
	if b.result.Version == b.Parent { // nothing changed, and the store already has the provenance of that version
		return nil
	}
	b.result.Version, err = b.Store.PutVersion(store.Version{
		Manifest: data, Signature: image.JoinSignatures(image.SignAll(data, b.Keys), before.Signature),
		Provenance: provenance,
	})
	return err
}

func (b *builder) fillProvenance() {
	p := &b.result.Provenance
	p.Format, p.Builder, p.Mkfs, p.Built = image.Format, b.Builder, b.mkfs, b.Now().UTC()
	p.Host, _ = os.Hostname() // for people; "" if unknown
	p.FromDir, p.Source = b.FromDir, b.Asked()
	p.Origin = b.origin
	if b.KernelFrom != nil {
		p.KernelFrom = b.KernelFrom.Name
	}
	if p.Parent, p.Command = b.Parent, b.Command; b.Parent != "" {
		p.FromDir = "" // a temporary directory, which no longer exists
	}
	if b.Recipe != nil {
		p.Recipe, p.RecipeText = b.Recipe.Name, b.Recipe.PublicText()
	}
	if b.extends != nil {
		p.FromDir, p.Packages = b.extends.tree, b.extends.packages
		return
	}
	p.Packages = systree.Packages(b.root)
}
