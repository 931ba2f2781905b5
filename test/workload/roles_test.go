package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// verbs are all that can be done to a resource of ours.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// TestUserRoles has Kubernetes join our roles to its own, and asks what those who have the latter in a namespace may do to our
// kinds: an editor all but delete them at one blow, a viewer read them, but for a CloudManager, which may have a password in
// it. Nobody writes a status.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	ns, elsewhere := plane.Namespace(t), plane.Namespace(t)
	installUserRoles(t, ns)
	for _, role := range []string{"admin", "edit", "view"} {
		plane.Create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: ns + "-" + role}},
		})
		for _, k := range fixture.Kinds {
			kind := k.Plural
			does := map[string][]string{"admin": verbs, "edit": verbs[:7], "view": verbs[:3]}[role]
			status, scale := verbs[:1], []string{"get", "update", "patch"}
			if role == "view" {
				scale = verbs[:1]
			}
			if !k.Scales {
				scale = nil
			}
			if k.Secret && role == "view" {
				does, status = nil, nil
			}
			for resource, want := range map[string][]string{kind: does, kind + "/status": status, kind + "/scale": scale, kind + "/finalizers": nil} {
				user := ns + "-" + role
				harness.Eventually(t, func() error {
					if got := may(t, user, ns, resource); !slices.Equal(got, want) {
						return fmt.Errorf("who has %q may %v %s, want %v", role, got, resource, want)
					}
					return nil
				})
				if got := may(t, user, elsewhere, resource); len(got) > 0 {
					t.Errorf("who has %q in one namespace may %v %s in another", role, got, resource)
				}
			}
		}
		if got := may(t, ns+"-"+role, ns, "appdefaults"); len(got) > 0 { // Their role joins no other role.
			t.Errorf("who has %q may %v AppDefaults", role, got)
		}
	}
	editor, viewer := actingAs(t, ns+"-edit"), actingAs(t, ns+"-view")
	app := newApp(ns)
	if err := viewer.Create(t.Context(), app); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer creates an App: %v", err)
	}
	if err := editor.Create(t.Context(), app); err != nil {
		t.Errorf("an editor creates an App: %v", err)
	}
	if err := viewer.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Errorf("a viewer reads an App: %v", err)
	}
	if err := viewer.List(t.Context(), &appv1.CloudManagerList{}, client.InNamespace(ns)); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer lists CloudManagers: %v", err)
	}
}

// installUserRoles makes the users' roles of config/rbac under other names, as other tests install them too.
func installUserRoles(t *testing.T, prefix string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(), "config/rbac/*_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if base := filepath.Base(file); strings.HasPrefix(base, "leader_") || strings.HasPrefix(base, "metrics_") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(data, role); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		role.Name = prefix + "-" + role.Name
		plane.Create(t, role)
		t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), role) })
		n++
	}
	if n != 3*len(fixture.Kinds)+1 { // AppDefaults have the role of an admin alone.
		t.Errorf("%d roles for users, want an admin's, an editor's and a viewer's for each of %d kinds, and one for AppDefaults", n, len(fixture.Kinds))
	}
}

// may returns what the API server lets a user do to a resource of ours.
func may(t *testing.T, user, namespace, resource string) []string {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	var allowed []string
	for _, verb := range verbs {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: appv1.GroupVersion.Group, Resource: resource, Subresource: subresource,
			},
		}}
		plane.Create(t, review)
		if review.Status.Allowed {
			allowed = append(allowed, verb)
		}
	}
	return allowed
}

// actingAs is a user's client.
func actingAs(t *testing.T, user string) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate.UserName = user
	c, err := client.New(cfg, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
