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

# labelled prints the objects with the operator's label, a line each: UID, kind, namespace and name, and the API version and the UID of
# the controller, if the object has one.
labelled() {
  "${kubectl[@]}" get "$children" "${scope[@]}" --ignore-not-found -l app.kubernetes.io/managed-by=app-operator \
    -o jsonpath='{range .items[*]}{.metadata.uid}{" "}{.kind}{" "}{.metadata.namespace}/{.metadata.name}{" "}{.metadata.ownerReferences[?(@.controller==true)].apiVersion}{" "}{.metadata.ownerReferences[?(@.controller==true)].uid}{"\n"}{end}'
}

# owned prints the child objects, a line each: UID, kind, namespace and name. The controller of a child is a resource of the operator, or
# another child: a Deployment that was orphaned or ejected has no controller, so it is no child, and neither are its ReplicaSets and pods,
# which keep the label. Retained data has no controller either. KNOWN are the UIDs of earlier children: the pods of a child that is gone
# by now are children still.
owned() { # KNOWN
  { printf '%s\n' "$1"; labelled; } | awk '
    NF == 1 { child[$1] = 1 }
    NF >= 3 { n++; uid[n] = $1; object[n] = $2 " " $3; version[n] = $4; controller[n] = $5; now[$1] = 1 }
    END {
      for (known in child) if (known in now) delete child[known]
      do {
        more = 0
        for (i = 1; i <= n; i++) if (!(uid[i] in child) && (version[i] ~ /^app\.huolala\.cn\// || controller[i] != "" && controller[i] in child)) {
          child[uid[i]] = 1; more = 1
        }
      } while (more)
      for (i = 1; i <= n; i++) if (uid[i] in child) print uid[i], object[i]
    }'
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
known=''
while :; do
  left=$(resources "$found")
  objects=$(owned "$known")
  known=$(printf '%s\n%s\n' "$known" "$(cut -d ' ' -f 1 <<< "$objects")" | sort -u)
  behind=$(cut -d ' ' -f 2- <<< "$objects")
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
