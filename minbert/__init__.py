"""The encoder, its optimizer and the one training loop. Knows nothing of tasks or CSV files.

Reading order: config, attention, bert, weights, tokenizer, optimizer, schedule, mlm, then checkpoint, runtime, loop.
"""

from minbert.bert import BertModel, BertOutput
from minbert.config import BertConfig
from minbert.optimizer import AdamW
from minbert.tokenizer import BertTokenizer

__all__ = ["AdamW", "BertConfig", "BertModel", "BertOutput", "BertTokenizer"]
