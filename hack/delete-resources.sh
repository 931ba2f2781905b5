#!/usr/bin/env bash
# Usage: hack/delete-resources.sh
#
# Deletes all resources of the operator's kinds, and waits until their child objects are gone. Run it before the definitions (CRDs)
# are deleted: the garbage collector may never look at the children of a kind that has no definition any more, and their pods run
# on.
#
# KUBECTL is the command, with its flags. NAMESPACE limits the deletion to one namespace. TIMEOUT is in seconds, from the first
# deletion: after it, the script prints what is left and exits with 1.
set -euo pipefail

read -ra kubectl <<< "${KUBECTL:-kubectl}"
timeout=${TIMEOUT:-300}
scope=(--all-namespaces)
if [ -n "${NAMESPACE:-}" ]; then scope=(--namespace "$NAMESPACE"); fi

# The types of all child objects. Claims of volumes are not among them: Kubernetes deletes a claim with its StatefulSet, or retains it.
children=deployments,statefulsets,replicasets,pods,cronjobs,jobs,services,secrets,serviceaccounts
children+=,horizontalpodautoscalers,poddisruptionbudgets,networkpolicies,ingresses
# Further types, by the names of their definitions: a cluster may lack them.
custom_children=(httproutes.gateway.networking.k8s.io podmonitors.monitoring.coreos.com)

# defined prints the operator's kinds that the cluster has, separated by commas.
defined() {
  "${kubectl[@]}" get crd -o jsonpath='{range .items[?(@.spec.group=="app.huolala.cn")]}{.metadata.name}{"\n"}{end}' | paste -sd, -
}

# existing prints the definitions among its arguments that the cluster has, each with a comma in front.
existing() { # DEFINITION...
  "${kubectl[@]}" get crd "$@" --ignore-not-found -o name | sed 's|.*/|,|' | tr -d '\n'
}

# resources prints what there is of the kinds, a line each.
resources() { # KINDS
  "${kubectl[@]}" get "$1" "${scope[@]}" --ignore-not-found \
    -o jsonpath='{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{" finalizers: "}{.metadata.finalizers}{"\n"}{end}'
}

# owned prints the child objects, a line each. What was left behind on purpose, such as retained data, has no owner.
owned() {
  "${kubectl[@]}" get "$children" "${scope[@]}" --ignore-not-found -l app.kubernetes.io/managed-by=app-operator \
    -o jsonpath='{range .items[*]}{.metadata.ownerReferences[0].kind} {.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}' |
    awk 'NF == 3 { print $2, $3 }'
}

count() { awk 'NF { n++ } END { print n + 0 }'; }

found=$(defined)
if [ -z "$found" ]; then
  echo "The cluster has no definition of app.huolala.cn: there is nothing to delete."
  exit 0
fi

children+=$(existing "${custom_children[@]}")

said=''
deadline=''
while :; do
  left=$(resources "$found")
  behind=$(owned)
  now="$(count <<< "$left") resources and $(count <<< "$behind") child objects are left"
  if [ "$now" != "$said" ]; then echo "$now"; fi
  said=$now
  if [ -z "$left$behind" ]; then exit 0; fi
  if [ -n "$deadline" ] && [ "$SECONDS" -ge "$deadline" ]; then
    {
      echo "After $timeout s, these are left:"
      printf '%s\n' "$left" "$behind" | sed -n '/./s/^/  /p'
      echo "A resource with a finalizer of another program waits for that program: start it, or remove the finalizer."
      echo "Then run the command again. TIMEOUT= sets a longer limit in seconds."
    } >&2
    exit 1
  fi
  # Each time, as another program may create resources meanwhile.
  if [ -n "$left" ]; then
    "${kubectl[@]}" delete "$found" --all "${scope[@]}" --cascade=foreground --wait=false --ignore-not-found > /dev/null
  fi
  # The time runs from the first deletion: a slow cluster must not end the script before it has deleted anything.
  deadline=${deadline:-$((SECONDS + timeout))}
  sleep 2
done
