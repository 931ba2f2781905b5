//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// deploy installs a version from the source tree.
func deploy(t testing.TB, version string) {
	t.Helper()
	command(t, "make", "deploy", "IMG="+pinned(t, version))
	kubectl(t, "rollout", "status", "-n", system, "deployment/app-operator-controller-manager", "--timeout="+patience.String())
}

// undeploy removes what deploy made, in any case at the end of the test. The variables are those of make, such as COMPONENTS=viewer.
func undeploy(t testing.TB, variables ...string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t, system)
		}
		if _, err := execute(context.WithoutCancel(t.Context()), "", "make", append([]string{"undeploy"}, variables...)...); err != nil {
			t.Error(err)
		}
	})
}

// deployed is the first way: make deploy, again with the next version, make undeploy-keep, which stops nothing but the operator, and make undeploy.
func deployed(t *testing.T) {
	older, latest := versions(t)
	before, err := inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("installed", func(t *testing.T) {
		undeploy(t)
		deploy(t, older)
		samples(t)
		startClient(t)
		answers(t)
		unnoticed(t, func() { deploy(t, latest) })
		renders(t)
		refuses(t, shop)
		answers(t)
		deploy(t, latest) // Again, as anyone may.
		kubectl(t, "wait", "-n", shop, "--for=condition=Ready", "--timeout="+patience.String(), resources[0])
		was := pods(t)
		command(t, "make", "undeploy-keep")
		becomes(t, "", "get", "deployments", "-n", system, "-o", "name")
		answers(t)
		deploy(t, latest)
		ready(t, shop, resources...)
		if now := pods(t); !slices.Equal(was, now) {
			t.Errorf("undeploy-keep and deploy changed pods:\n%v\nbefore:\n%v", now, was)
		}
		// The namespace outlives its resources: what they made must go by itself.
		command(t, "make", "undeploy")
		retained(t)
	})
	nothingLeft(t, before)
	t.Log("undeploy left nothing")
}

// nothingLeft waits until the cluster has nothing that it did not have before.
func nothingLeft(t *testing.T, before []string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		left, err := inventory(ctx)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(before, name) })
		if len(left) > 0 {
			return fmt.Errorf("%s is left", strings.Join(left, ", "))
		}
		return nil
	})
}

// removals is how often TestDelivery/removal removes everything.
const removals = 10

// removed installs the operator with Apps and a ModelBox and removes it again, time after time, while the node is busy with something
// else: nothing may be left, whichever the garbage collector sees first.
func removed(t *testing.T) {
	_, latest := versions(t)
	before, err := inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	busy, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		load.Go(func() {
			for busy.Err() == nil {
				sha256.Sum256(make([]byte, 1<<20))
			}
		})
	}
	defer load.Wait()
	defer stop()
	for round := range removals {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			undeploy(t)
			deploy(t, latest)
			namespace(t, shop)
			for _, file := range []string{"app_v1_app", "app_v1_modelbox"} {
				apply(t, replaced(t, "config/samples/"+file+".yaml", "namespace: default", "namespace: "+shop), "-n", shop)
			}
			if round%2 == 0 { // In each other round, everything is removed while pods are being made.
				ready(t, shop, resources[:2]...)
			}
			command(t, "make", "undeploy")
			becomes(t, "", "get", "deployments,replicasets,pods,services", "-n", shop, "-l", "app.kubernetes.io/managed-by=app-operator",
				"--ignore-not-found", "-o", "name")
		})
	}
	nothingLeft(t, before)
	t.Logf("%d removals left nothing", removals)
}

// retained checks that of the samples' children nothing is left but the database's volume and password.
func retained(t testing.TB) {
	t.Helper()
	becomes(t, "persistentvolumeclaim/datadir-cm-db-0\nsecret/cm-dbauth\n", "get",
		"deployments,statefulsets,services,pods,persistentvolumeclaims,secrets", "-n", shop,
		"-l", "app.kubernetes.io/managed-by=app-operator", "-o", "name")
}

// apps is how many Apps are edited while the leader changes.
const apps = 10

// failover ends the leader while Apps are being edited: once by a deletion that lets it hand over, once without.
func failover(t *testing.T) {
	_, latest := versions(t)
	undeploy(t)
	deploy(t, latest)
	namespace(t, shop)
	for i := range apps {
		apply(t, fmt.Sprintf("apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: app-%d}\n"+
			"spec: {replicas: 0, image: 'busybox:1.32.1', envs: [{name: ROUND, value: '0'}]}\n", i), "-n", shop)
	}
	rounds(t, 0)
	made := uids(t)
	round := 0
	for _, how := range [][]string{{}, {"--grace-period=0", "--force"}} {
		was := leader(t)
		began := time.Now()
		for range 3 {
			round++
			for i := range apps {
				if i == apps/2 && round%3 == 2 {
					kubectl(t, append([]string{"delete", "pod", "-n", system, was, "--wait=false"}, how...)...)
					began = time.Now()
				}
				kubectl(t, "patch", "-n", shop, fmt.Sprintf("app.app.huolala.cn/app-%d", i), "--type=json", "-p",
					fmt.Sprintf(`[{"op": "replace", "path": "/spec/envs/0/value", "value": "%d"}]`, round))
			}
		}
		rounds(t, round)
		took := time.Since(began)
		now := leader(t)
		if now == was {
			t.Errorf("%s is still the leader", was)
		}
		t.Logf("leader deleted %s: from the deletion to the last of %d Apps being as edited last, %.1fs", how, apps, took.Seconds())
	}
	if now := uids(t); now != made {
		t.Errorf("Deployments were recreated: %s, before %s", now, made)
	}
}

// leader is the pod that holds the lease.
func leader(t testing.TB) string {
	t.Helper()
	holder := kubectl(t, "get", "lease", "-n", system, "app-operator.huolala.cn", "-o", "jsonpath={.spec.holderIdentity}")
	pod, _, ok := strings.Cut(holder, "_")
	if !ok {
		t.Fatalf("the lease is held by %q", holder)
	}
	return pod
}

// uids are those of all Deployments.
func uids(t testing.TB) string {
	t.Helper()
	return kubectl(t, "get", "deployments", "-n", shop, "-o", "jsonpath={.items[*].metadata.uid}")
}

// rounds waits until all Deployments are of the last edit.
func rounds(t testing.TB, round int) {
	t.Helper()
	want := strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", round), apps))
	becomes(t, want, "get", "deployments", "-n", shop, "-o", `jsonpath={.items[*].spec.template.spec.containers[0].env[?(@.name=="ROUND")].value}`)
}
