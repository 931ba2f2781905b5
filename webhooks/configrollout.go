package webhooks

import (
	"fmt"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// contentWarnings warns of probable mistakes in a resource with rollouts on content changes, one line each.
func (s *validators) contentWarnings(spec *appv1.ServingSpec, w *resource.Workload) []string {
	if spec.ConfigRollout != appv1.ConfigRolloutOnChange {
		return nil
	}
	refs := resource.ConfigReferences(&w.Template)
	if len(refs) == 0 {
		return []string{messageNothingReferred}
	}
	var secrets []string
	for i := range refs {
		if refs[i].Kind == resource.KindSecret {
			secrets = append(secrets, refs[i].Name)
		}
	}
	if s.followSecrets || len(secrets) == 0 {
		return nil
	}
	return []string{cutWarning(fmt.Sprintf(messageSecretsUnfollowed, strings.Join(secrets, ", ")))}
}
