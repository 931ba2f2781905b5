package apply

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errDryRun is the error of a write in a dry run.
var errDryRun = errors.New("a plan writes nothing")

// dryClient refuses all writes that are no dry run.
type dryClient struct{ client.Client }

// Patch implements client.Writer.
func (c dryClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	all := (&client.PatchOptions{}).ApplyOptions(opts)
	if len(all.DryRun) == 0 {
		return errDryRun
	}
	return c.Client.Patch(ctx, obj, patch, append(slices.Clone(opts), client.DisableReadYourWritesConsistency)...)
}

// Create implements client.Writer.
func (c dryClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	all := (&client.CreateOptions{}).ApplyOptions(opts)
	if len(all.DryRun) == 0 {
		return errDryRun
	}
	return c.Client.Create(ctx, obj, append(slices.Clone(opts), client.DisableReadYourWritesConsistency)...)
}

// Update implements client.Writer.
func (dryClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errDryRun
}

// Delete implements client.Writer.
func (dryClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errDryRun
}

// DeleteAllOf implements client.Writer.
func (dryClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errDryRun
}

// Apply implements client.Writer.
func (dryClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errDryRun
}

// Status implements client.StatusClient.
func (c dryClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c dryClient) SubResource(name string) client.SubResourceClient {
	return dryPart{c.Client.SubResource(name)}
}

// dryPart refuses all writes of a subresource.
type dryPart struct{ client.SubResourceClient }

// Create implements client.SubResourceWriter.
func (dryPart) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errDryRun
}

// Update implements client.SubResourceWriter.
func (dryPart) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errDryRun
}

// Patch implements client.SubResourceWriter.
func (dryPart) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errDryRun
}

// Apply implements client.SubResourceWriter.
func (dryPart) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errDryRun
}

// ReadOnly returns a client that reads with c, and writes nothing.
func ReadOnly(c client.Client) client.Client {
	if _, ok := c.(dryClient); ok {
		return c
	}
	return dryClient{c}
}
