package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/plugin/view"
)

func (r *root) importCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import deployment/NAME", Short: "Print the App that takes over a Deployment without a restart", Args: takes(1, 1),
		Long: "Print the App that takes over a Deployment, with its Service, autoscaler, disruption budget and Ingress. Applied as it is, it\n" +
			"restarts no pod. Comments name each field that an App cannot set, or sets to another value. The command changes nothing in the cluster.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.connect()
			if err != nil {
				return err
			}
			text, err := r.imported(cmd.Context(), c, args[0])
			if err == nil {
				_, err = r.Out.Write(text)
			}
			return err
		},
	}
}

// imported returns the manifest of the App that takes over what an argument names.
func (r *root) imported(ctx context.Context, c *clients, argument string) ([]byte, error) {
	word, name, found := strings.Cut(argument, "/")
	kind := strings.ToLower(word)
	if full, ok := belowNames[kind]; ok {
		kind = full
	}
	if !found || kind != "deployment" || name == "" || strings.Contains(name, "/") {
		return nil, wrongUse(fmt.Errorf("%q: write deployment/NAME; an App is made of Deployments alone", argument))
	}
	d, err := c.kube.AppsV1().Deployments(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, inWords(err, "get", "deployment "+name, c.namespace)
	}
	from := view.Source{Deployment: d}
	g := &gathering{ctx: ctx, namespace: c.namespace, chunk: c.chunk}
	gather(g, "Services", c.kube.CoreV1().Services(c.namespace), metav1.ListOptions{}, &from.Services)
	gather(g, "HorizontalPodAutoscalers", c.kube.AutoscalingV2().HorizontalPodAutoscalers(c.namespace), metav1.ListOptions{}, &from.Autoscalers)
	gather(g, "PodDisruptionBudgets", c.kube.PolicyV1().PodDisruptionBudgets(c.namespace), metav1.ListOptions{}, &from.Budgets)
	gather(g, "Ingresses", c.kube.NetworkingV1().Ingresses(c.namespace), metav1.ListOptions{}, &from.Ingresses)
	g.wait.Wait()
	for _, m := range g.missing {
		fmt.Fprintln(r.Err, "not looked at: "+m.String())
	}
	made, err := view.ImportOf(&from)
	if err != nil {
		return nil, err
	}
	fields, err := made.Manifest()
	if err != nil {
		return nil, err
	}
	text, err := view.EncodeYAML(fields)
	return append([]byte(made.Comments()), text...), err
}
