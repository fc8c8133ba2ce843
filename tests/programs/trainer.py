"""A training script as users of transformers write it; it knows nothing of compile-api."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 100, (16,), generator=generator)
        return {"input_ids": tokens, "attention_mask": torch.ones(16, dtype=torch.long), "labels": tokens[0] % 2}


set_seed(0)
config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(
        output_dir=sys.argv[1], torch_compile="--compile" in sys.argv, per_device_train_batch_size=8,
        num_train_epochs=2, logging_steps=1, save_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True,
    ),
    train_dataset=Sentences(),
    eval_dataset=Sentences(),
)  # fmt: skip
trainer.train()
print("eval_loss", trainer.evaluate()["eval_loss"])
print("losses", [entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
trainer.save_model()
again = BertForSequenceClassification.from_pretrained(sys.argv[1])
print("saved", all(torch.equal(a, b) for a, b in zip(again.parameters(), trainer.model.parameters(), strict=True)))
