# faultlab itself, for Jobs on a cluster. The wheels come from the machine that builds the image.
ARG BASE
FROM ${BASE} AS made
RUN apt-get update && apt-get install -y python3-venv && python3 -m venv /opt/faultlab
COPY wheels /wheels
COPY lock.txt /wheels/
RUN /opt/faultlab/bin/pip install --no-index --find-links /wheels --no-deps --require-hashes \
      --disable-pip-version-check -r /wheels/lock.txt

FROM ${BASE}
RUN apt-get update && apt-get install -y python3 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY --from=made /opt/faultlab /opt/faultlab
COPY project /opt/faultlab/project
ENV PATH=/opt/faultlab/bin:$PATH PYTHONPATH=/opt/faultlab/project PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/faultlab/project
CMD ["python3", "-m", "faultlab"]
