package apply

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// canRecreate returns an error if the API server would refuse the object that replaces a live one. canRecreate is called before the
// deletion. The dry run of a creation passes validation, admission and quota, under its own name, before the API server finds that the
// object exists: after that answer, all else is right.
func (e *Engine) canRecreate(ctx context.Context, p *objectPlan) error {
	obj := &unstructured.Unstructured{Object: p.fields}
	err := e.client.Create(ctx, obj.DeepCopy(), client.DryRunAll, client.DisableReadYourWritesConsistency)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err) && quotaFreed(err, p.countResource()):
		return nil
	}
	return e.classifyError(p, err)
}

// countResource is how a quota counts objects of the kind.
func (p *objectPlan) countResource() string {
	resource := "count/" + strings.ToLower(p.gvk.Kind) + "s"
	if p.gvk.Group != "" {
		resource += "." + p.gvk.Group
	}
	return resource
}

// quotaWords is the API server's phrase for a quota that is used up (k8s.io/apiserver/pkg/admission/plugin/resourcequota).
var quotaWords = regexp.MustCompile(`exceeded quota: [^,]+, requested: ([^ ]+), used: ([^ ]+), limited: ([^ ]+)$`)

// quotaFreed reports whether a refusal is due to nothing but a quota of objects that has room as soon as the live one is
// deleted.
func quotaFreed(err error, resource string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	words := quotaWords.FindStringSubmatch(status.Status().Message)
	if words == nil {
		return false
	}
	count := func(text string) (int, bool) {
		name, number, found := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		return n, found && err == nil && name == resource
	}
	requested, ok1 := count(words[1])
	used, ok2 := count(words[2])
	limit, ok3 := count(words[3])
	return ok1 && ok2 && ok3 && used-1+requested <= limit
}
