#!/bin/bash
# What a container of the image runs.
#
#     driver ARGUMENTS...     as Spark on Kubernetes starts a driver in cluster mode
#     executor                as Spark on Kubernetes starts an executor: its facts are in the environment
#     anything else           that command: spark-sql, spark-submit, sealberg, bash
set -euo pipefail

case "${1:-}" in
driver)
    shift
    # Kubernetes has placed this driver: --deploy-mode cluster would submit it once more.
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # Spark numbers the options of the JVM: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
    options=()
    while IFS= read -r variable; do
        options+=("${!variable}")
    done < <(compgen -v SPARK_JAVA_OPT_ | sort -t_ -k4 -n)
    classes="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*"
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" ${options[@]+"${options[@]}"} \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classes" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$@"
    ;;
esac
