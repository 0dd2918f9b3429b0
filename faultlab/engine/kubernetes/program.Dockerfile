# faultlab itself, for Jobs on a cluster and for the server of a class. Its packages come from the machine that builds the image.
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y python3 iproute2 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY packages /opt/faultlab/packages
COPY project /opt/faultlab/project
RUN python3 -m compileall -q /opt/faultlab
ENV PYTHONPATH=/opt/faultlab/project:/opt/faultlab/packages PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/faultlab/project
CMD ["python3", "-m", "faultlab"]
