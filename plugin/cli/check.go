package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

func (r *root) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "The definitions, the operator, and what you may do", Args: takesArguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			r.printf("plug-in      %s\n", r.Version)
			sound, err := r.checkKinds(cmd.Context(), c)
			if err != nil {
				return err
			}
			r.checkOperator(cmd.Context(), c)
			r.checkWebhooks(cmd.Context(), c)
			if err := r.checkRights(cmd.Context(), c); err != nil {
				return err
			}
			if !sound {
				return &exit{code: 1, text: "kinds are missing: install the operator's definitions"}
			}
			return nil
		},
	}
}

// definition is a kind whose definition a cluster has, with the name of its resource.
type definition struct{ kind, resource string }

// definitions returns the definitions of the operator, in the order of the output.
func definitions() []definition {
	var all []definition
	for _, kind := range view.Kinds {
		all = append(all, definition{kind.Name, kind.Plural})
	}
	return append(all, definition{"AppDefaults", "appdefaults"})
}

// checkKinds prints which of the kinds the cluster has, and reports whether it has all of them.
func (r *root) checkKinds(ctx context.Context, c *clients) (bool, error) {
	group := appv1.GroupVersion.String()
	list, err := c.listKinds(ctx, appv1.GroupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read which kinds the cluster has: %w", err)
	}
	all := true
	for _, of := range definitions() {
		has := slices.ContainsFunc(list.APIResources, func(found metav1.APIResource) bool { return found.Name == of.resource })
		all = all && has
		r.printf("%-12s %-18s %s\n", "definition", of.kind, chooseWord(has, group, "missing"))
	}
	return all, nil
}

func chooseWord(yes bool, ifYes, ifNo string) string {
	if yes {
		return ifYes
	}
	return ifNo
}

// maxOperators is the maximum number of containers that check names: tenants can give the label of the operator to any number of Deployments.
const maxOperators = 20

// checkOperator prints which operator runs, as far as the user may see. It reads one chunk of the Deployments with the operator's label.
func (r *root) checkOperator(ctx context.Context, c *clients) {
	list, err := c.kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: appv1.LabelName + "=app-operator", Limit: c.chunk})
	if err != nil {
		r.printf("operator     not shown: %s\n", refusalText(err, ""))
		return
	}
	found := 0
	for i := range list.Items {
		d := &list.Items[i]
		for k := range d.Spec.Template.Spec.Containers {
			if found++; found > maxOperators {
				continue
			}
			r.printf("operator     %s/%s %d/%d ready, %s\n", d.Namespace, d.Name, d.Status.ReadyReplicas, d.Status.Replicas,
				d.Spec.Template.Spec.Containers[k].Image)
		}
	}
	switch left := found - maxOperators; {
	case list.Continue != "":
		r.printf("operator     at least %d more with the label\n", max(1, left))
	case left > 0:
		r.printf("operator     %d more with the label\n", left)
	case len(list.Items) == 0:
		r.printf("operator     none found: no Deployment has the label %s=app-operator\n", appv1.LabelName)
	}
}

// checkWebhooks prints whether the operator's webhooks are registered.
func (r *root) checkWebhooks(ctx context.Context, c *clients) {
	list, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.printf("webhooks     not shown: %s\n", refusalText(err, ""))
		return
	}
	found := 0
	for i := range list.Items {
		for k := range list.Items[i].Webhooks {
			for _, rule := range list.Items[i].Webhooks[k].Rules {
				if slices.Contains(rule.APIGroups, appv1.GroupVersion.Group) {
					found++
				}
			}
		}
	}
	r.printf("webhooks     %s\n", chooseWord(found > 0, fmt.Sprintf("%d rules for %s", found, appv1.GroupVersion.Group), "none"))
}

// checkRights prints for each command which rights the user lacks in the namespace.
func (r *root) checkRights(ctx context.Context, c *clients) error {
	needs := CommandNeeds()
	allowed := map[Right]bool{}
	for _, need := range needs {
		for _, right := range need.Rights {
			right.Needed = false
			allowed[right] = false
		}
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	rights := make([]Right, 0, len(allowed))
	for right := range allowed {
		rights = append(rights, right)
	}
	for _, right := range rights {
		wait.Go(func() {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: c.namespace, Verb: right.Verb, Group: right.Group, Resource: right.Resource,
				},
			}}
			answer, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			allowed[right] = answer.Status.Allowed
		})
	}
	wait.Wait()
	if failed != nil {
		return fmt.Errorf("ask what you may do: %w", failed)
	}
	c.grantUnserved(ctx, allowed)
	missing := 0
	for _, need := range needs {
		if text := lackingRights(need.Rights, allowed); text != "" {
			if missing++; missing == 1 {
				r.printf("\nCOMMAND          MISSING IN NAMESPACE %s\n", c.namespace)
			}
			r.printf("%-16s %s\n", need.Command, text)
		}
	}
	if missing == 0 {
		r.printf("rights       all commands, in namespace %s\n", c.namespace)
	} else if all := len(needs) - missing; all > 0 {
		r.printf("%-16s all rights\n", fmt.Sprintf("%d others", all))
	}
	return nil
}

// grantUnserved counts the rights to kinds around the pods that the cluster does not have as given: there is nothing to use them for.
func (c *clients) grantUnserved(ctx context.Context, allowed map[Right]bool) {
	for i := range view.AroundTypes {
		kind := view.AroundTypes[i].Resource
		var lacked []Right
		for right, given := range allowed {
			if !given && right.Group == kind.Group && right.Resource == kind.Resource {
				lacked = append(lacked, right)
			}
		}
		if len(lacked) > 0 && !c.servesKind(ctx, kind) {
			for _, right := range lacked {
				allowed[right] = true
			}
		}
	}
}

// lackingRights lists the missing ones of the rights that a command needs, empty for none.
func lackingRights(rights []Right, allowed map[Right]bool) string {
	var without, less []string
	for _, right := range rights {
		asked := right
		asked.Needed = false
		switch {
		case allowed[asked]:
		case right.Needed:
			without = append(without, right.String())
		default:
			less = append(less, right.String())
		}
	}
	switch {
	case len(without) > 0:
		return "you may not " + strings.Join(without, ", ")
	case len(less) > 0:
		return "shows less: you may not " + strings.Join(less, ", ")
	}
	return ""
}
