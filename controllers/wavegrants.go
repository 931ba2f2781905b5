package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/waves"
)

// waveGrants implements workload.WaveGrants: the grants of the leader, as far as the AppDefaults that has granted them still rolls out in waves.
type waveGrants struct {
	*waves.Grants
	defaults *Defaults
}

// Grant implements workload.WaveGrants.
func (g *waveGrants) Grant(ctx context.Context, id waves.ID) (waves.Grant, bool, error) {
	grant, granted := g.Of(id)
	if !granted {
		return waves.Grant{}, false, nil
	}
	of, rollout, err := g.defaults.rolloutFor(ctx, id.Namespace)
	if err != nil {
		return waves.Grant{}, false, err
	}
	if of != grant.Of.Namespace || !rollout.IsWaves() {
		g.Decline(id, "")
		return waves.Grant{}, false, nil
	}
	return grant, true, nil
}

// Decline ends the grant of a resource in a state.
func (g *waveGrants) Decline(id waves.ID, state string) { g.Grants.Decline(id, state, countDelay) }

// InWaves implements workload.WaveGrants.
func (g *waveGrants) InWaves(ctx context.Context, namespace string) (bool, error) {
	_, rollout, err := g.defaults.rolloutFor(ctx, namespace)
	return rollout.IsWaves(), err
}

// rolloutFor returns the rollout that the resources of a namespace follow, and the namespace of the AppDefaults that states it. The rollout is nil if
// none states one.
func (d *Defaults) rolloutFor(ctx context.Context, namespace string) (of string, rollout *appv1.DefaultsRollout, err error) {
	return d.rolloutWith(ctx, namespace, nil)
}

// rolloutWith is rolloutFor with another spec in place of the AppDefaults of the namespace, nil for none.
func (d *Defaults) rolloutWith(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (of string, rollout *appv1.DefaultsRollout, err error) {
	if d.reader == nil {
		return "", nil, nil
	}
	for _, ns := range d.namespacesFor(namespace) {
		valid := spec
		if spec == nil || ns != namespace {
			known, err := d.readDefaults(ctx, ns)
			if err != nil {
				return "", nil, err
			}
			valid = known.valid
		}
		if valid != nil && valid.Rollout != nil {
			of, rollout = ns, valid.Rollout
		}
	}
	return of, rollout, nil
}

// watchGrants adds the source of reconciles for resources of a kind whose wave has come.
func watchGrants(k *kind, s *Deps, b *builder.Builder) {
	b.WatchesRawSource(source.Func(func(_ context.Context, queue waves.Queue) error {
		s.grants.Register(k.Name, queue)
		return nil
	}))
}
