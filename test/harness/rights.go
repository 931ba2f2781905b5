package harness

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is one thing that a role of the manager allows.
type Right struct {
	// Role is the role's kind and name, such as "Role leader-election-role".
	Role string
	// Namespace is where a Role counts, empty for a ClusterRole.
	Namespace string
	// Group and Resource are those of a rule, a subresource behind a slash. Name is empty if it is for all objects.
	Group, Resource, Name string
	Verb                  string
}

// String is the right in a few words, such as "patch apps/status.app.huolala.cn"; that of a Role ends with where it counts.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// Rights returns all that the manager may do in config/default, in order.
func Rights() ([]Right, error) {
	roles, err := managerRoles()
	if err != nil {
		return nil, err
	}
	var rights []Right
	for _, role := range []struct {
		name, namespace string
		rules           []rbacv1.PolicyRule
	}{
		{"ClusterRole " + roles.works.Name, "", roles.works.Rules},
		{"ClusterRole " + roles.asks.Name, "", roles.asks.Rules},
		{"ClusterRole " + roles.trusts.Name, "", roles.trusts.Rules},
		{"Role " + roles.reads.Name, SystemNamespace, roles.reads.Rules},
		{"Role " + roles.elects.Name, SystemNamespace, roles.elects.Rules},
		{"Role " + roles.certifies.Name, SystemNamespace, roles.certifies.Rules},
	} {
		for i := range role.rules {
			found, err := allowed(&role.rules[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", role.name, err)
			}
			for _, right := range found {
				right.Role, right.Namespace = role.name, role.namespace
				rights = append(rights, right)
			}
		}
	}
	slices.SortFunc(rights, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Verb, b.Verb))
	})
	return rights, nil
}

// allowed returns what a rule allows, one by one. There may be no wildcard in it.
func allowed(rule *rbacv1.PolicyRule) ([]Right, error) {
	if len(rule.NonResourceURLs) > 0 {
		return nil, fmt.Errorf("it allows paths that are no resources: %v", rule.NonResourceURLs)
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					if strings.Contains(group+resource+name+verb, "*") {
						return nil, fmt.Errorf("a wildcard in %s %s.%s", verb, resource, group)
					}
					rights = append(rights, Right{Group: group, Resource: resource, Name: name, Verb: verb})
				}
			}
		}
	}
	return rights, nil
}

// rule is the right as a role states it.
func (r Right) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	return rule
}

// Bind gives a ServiceAccount rights by Roles alone: those of ClusterRoles in each of the namespaces, those of Roles in the
// account's own, and none to what is in no namespace. The rights are in force when Bind returns.
func (p *Plane) Bind(t testing.TB, own, account string, rights []Right, namespaces ...string) {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, right := range rights {
		where := namespaces
		if right.Namespace != "" {
			where = []string{own}
		}
		for _, namespace := range where {
			rules[namespace] = append(rules[namespace], right.rule())
		}
	}
	for namespace, allowed := range rules {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
		p.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: allowed}, &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: own, Name: account}},
		})
	}
	for namespace, allowed := range rules {
		p.AwaitAccess(t, "system:serviceaccount:"+own+":"+account, attributesOf(&allowed[0], namespace), true) // All rights of a role are seen at once.
	}
}

// attributesOf returns the first request that a rule is about.
func attributesOf(rule *rbacv1.PolicyRule, namespace string) *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	asked := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		asked.Name = rule.ResourceNames[0]
	}
	return asked
}

// AwaitAccess waits until the API server allows a user something, or does not allow it: the API server sees a new role a moment later.
func (p *Plane) AwaitAccess(t testing.TB, user string, asked *authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	Eventually(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: asked}}
		if err := p.Client.Create(t.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("in namespace %q, %s may %s %s: %t, want %t", asked.Namespace, user, asked.Verb, asked.Resource, review.Status.Allowed, want)
		}
		return nil
	})
}

// allows reports whether the right is enough for a request.
func (r Right) allows(q Request) bool {
	return r.Verb == q.Verb && r.Group == q.Group && r.Resource == q.Resource &&
		(r.Namespace == "" || r.Namespace == q.Namespace) && (r.Name == "" || r.Name == q.Name || r.Name == q.Selected)
}

// usage is which rights the managers of a process have used.
type usage struct {
	rights []Right
	mu     sync.Mutex
	used   map[Right]bool
}

func newUsage() (*usage, error) {
	rights, err := Rights()
	// A Role goes first: what it is enough for needs no ClusterRole.
	slices.SortStableFunc(rights, func(a, b Right) int { return -cmp.Compare(a.Namespace, b.Namespace) })
	return &usage{rights: rights, used: map[Right]bool{}}, err
}

// note notes a request that was answered with a status. What was forbidden, by whomever, says nothing of a right.
func (u *usage) note(q Request, status int) {
	if status == 0 || status == http.StatusForbidden || status == http.StatusUnauthorized {
		return
	}
	i := slices.IndexFunc(u.rights, func(r Right) bool { return r.allows(q) })
	if i < 0 {
		return // Discovery, or a right that a test has given.
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[u.rights[i]] = true
}

// UsedToo has the rights count as used that the managers of another control plane have used.
func (p *Plane) UsedToo(other *Plane) {
	other.usage.mu.Lock()
	defer other.usage.mu.Unlock()
	p.usage.mu.Lock()
	defer p.usage.mu.Unlock()
	maps.Copy(p.usage.used, other.usage.used)
}

// Unused compares the manager's roles with what the managers of all tests so far have used of them. The error names each
// right that none has used, and that is not among those which are needed without a request, by their text and with a
// reason. It also names what is there in vain: it is used, or no role has it.
func (p *Plane) Unused(needed map[string]string) error {
	p.usage.mu.Lock()
	defer p.usage.mu.Unlock()
	var errs []error
	rest := maps.Clone(needed)
	for _, right := range p.usage.rights {
		_, excused := needed[right.String()]
		switch {
		case p.usage.used[right] && excused:
			errs = append(errs, fmt.Errorf("%s: a manager has used it, it needs no other reason", right))
		case !p.usage.used[right] && !excused:
			errs = append(errs, fmt.Errorf("%s allows to %s, which no manager has done", right.Role, right))
		}
		delete(rest, right.String())
	}
	for right := range rest {
		errs = append(errs, fmt.Errorf("%s: no role allows it", right))
	}
	return errors.Join(errs...)
}
