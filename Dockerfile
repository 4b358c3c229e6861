# docker build -t electra . && docker run -v "$PWD:/work" electra pretrain --train_file corpus.txt --budget 2h
# With a GPU: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126 -t electra . ; docker run --gpus all ...
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /opt/electra
COPY requirements.txt .
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -r requirements.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .
WORKDIR /work
ENTRYPOINT ["electra"]
